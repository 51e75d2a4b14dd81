import type { TableStatus } from "../../../../src/connector/table-status.ts";
import type { KnownConnector } from "../../../connector/known-connector.ts";
import { Reason } from "../../../connector/reason.tsx";
import { retryWords } from "../../../connector/retry-words.ts";
import { withoutSql } from "../../../connector/without-sql.ts";
import { useNow } from "../../../parts/clock.ts";
import { Command, SqlCommands } from "../../../parts/command.tsx";
import { Notice } from "../../../parts/notice.tsx";
import { TimeAgo } from "../../../parts/time-ago.tsx";
import { Link } from "../../../route/link.tsx";
import { plural } from "../../../text/numbers.ts";
import { WaitingForTable } from "../tables/waiting-for-table.tsx";
import { pastError, presentCode, situationOf } from "./situation.ts";
import { snapshotRemedy } from "./snapshot-remedy.ts";
import { useRefusedTables } from "./use-refused-tables.ts";

interface SituationProps {
  readonly entry: KnownConnector;
}

/** How the connector is, in words, and what mends it. */
export function SituationNotice({ entry }: SituationProps) {
  const refused = useRefusedTables(entry);
  const past = pastError(entry.status);
  return (
    <>
      {refused.length > 0 ? <Refusal {...{ entry, refused }} /> : <Situation entry={entry} />}
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

function Situation({ entry }: SituationProps) {
  const { tone, title, reason, advice, commands } = situationOf(entry);
  const remedy = reason === null ? null : snapshotRemedy(entry.connector.id, withoutSql(reason, commands));
  return (
    <Notice tone={tone} title={title}>
      {remedy && <Reason text={remedy.reason} />}
      {advice && <p>{advice}</p>}
      <Attempts entry={entry} />
      <SqlCommands statements={commands} />
      {remedy && remedy.commands.length > 0 && (
        <>
          <p>
            <Link to={{ page: "connector", id: entry.connector.id, tab: "tables" }}>Copy it again</Link>,
            beside the table in Tables.
          </p>
          <details>
            <summary class="small">On a command line</summary>
            <Command text={remedy.commands.join("\n")} />
          </details>
        </>
      )}
    </Notice>
  );
}

interface RefusalProps extends SituationProps {
  readonly refused: readonly TableStatus[];
}

/** Reason and remedy are with the table, and not here once more. */
function Refusal({ entry, refused }: RefusalProps) {
  const [first] = refused;
  const what = refused.length === 1 ? `${first?.schema}.${first?.name}` : plural(refused.length, "table");
  return (
    <Notice tone="bad" title={`All tables wait for ${what}`}>
      <p>
        <WaitingForTable tables={refused} />
      </p>
      <p>
        <Link to={{ page: "connector", id: entry.connector.id, tab: "tables" }}>See what to do</Link>
      </p>
      <Attempts entry={entry} />
    </Notice>
  );
}

/** The code of what fails now, and when it is tried again. */
function Attempts({ entry: { status } }: SituationProps) {
  const code = presentCode(status);
  const words = retryWords(status, useNow());
  if (!code && !words) return null;
  return (
    <p class="small soft">
      {words}
      {words && code && " · "}
      {code && (
        <>
          error <code>{code}</code>
        </>
      )}
    </p>
  );
}
