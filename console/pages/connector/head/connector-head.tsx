import { conditionOf } from "../../../connector/condition.ts";
import { sinkKind, sinkName, sourceName } from "../../../connector/endpoints.ts";
import type { KnownConnector } from "../../../connector/known-connector.ts";
import { useConsole } from "../../../console-context.ts";
import { Badge } from "../../../parts/badge.tsx";
import { ReadOnlyNote } from "../../../parts/notice.tsx";
import { ConnectorActions } from "./connector-actions.tsx";

/** Which connector it is, how it is, and what can be done to it. */
export function ConnectorHead({ entry }: { readonly entry: KnownConnector }) {
  const { access } = useConsole();
  const { connector } = entry;
  const { tone, word } = conditionOf(entry);
  return (
    <header class="connector-head">
      <div class="stack tight">
        <div class="row">
          <h1 class="name">{connector.id}</h1>
          <Badge tone={tone}>{word}</Badge>
          {connector.name && <span class="name soft">{connector.name}</span>}
        </div>
        <p class="soft">
          <span class="name">Postgres {sourceName(connector)}</span>
          <span aria-hidden="true"> → </span>
          <span class="only-spoken"> to </span>
          <span class="name">
            {sinkKind(connector)} {sinkName(connector)}
          </span>
        </p>
      </div>
      {access === "Full" ? <ConnectorActions entry={entry} /> : <ReadOnlyNote />}
    </header>
  );
}
