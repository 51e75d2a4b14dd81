import type { KnownConnector } from "../../../connector/known-connector.ts";
import { Reason } from "../../../connector/reason.tsx";
import { Command, SqlCommands } from "../../../parts/command.tsx";
import { Notice } from "../../../parts/notice.tsx";
import { TimeAgo } from "../../../parts/time-ago.tsx";
import { pastError, presentCode, situationOf } from "./situation.ts";
import { snapshotRemedy } from "./snapshot-remedy.ts";

/** How the connector is, in words, and what mends it. */
export function SituationNotice({ entry }: { readonly entry: KnownConnector }) {
  const { tone, title, reason, advice, commands } = situationOf(entry);
  const remedy = reason === null ? null : snapshotRemedy(entry.connector.id, reason);
  const past = pastError(entry.status);
  const code = presentCode(entry.status);
  return (
    <>
      <Notice tone={tone} title={title}>
        {remedy && <Reason text={remedy.reason} />}
        {advice && <p>{advice}</p>}
        {code && (
          <p class="small soft">
            Error <code>{code}</code>
          </p>
        )}
        <SqlCommands statements={commands} />
        {remedy && remedy.commands.length > 0 && (
          <>
            <p>Copy again does it, beside the table in Tables. Or, on a command line:</p>
            <Command text={remedy.commands.join("\n")} />
          </>
        )}
      </Notice>
      {past && (
        <details class="past-error">
          <summary class="small">
            Last error of this run, now over: <code>{past.code}</code>, <TimeAgo at={past.at} />
          </summary>
          <Reason text={past.reason} class="small soft" />
        </details>
      )}
    </>
  );
}
