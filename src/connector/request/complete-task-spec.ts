// Fills in what a request for a task has left out, and refuses what its schema cannot tell. Pure.

import { invalidRequest } from "../../errors/invalid-input.ts";
import type { ConnectorConfig } from "../connector.ts";
import { keyViolations } from "../replay.ts";
import type { TaskRequest, TaskSpec } from "../task.ts";

/** The complete spec of a request. The default `database` is the source connection's. Throws `invalid_request`. */
export function completeTaskSpec(request: TaskRequest, connector: ConnectorConfig): TaskSpec {
  const { Snapshot: snapshot, Verify: verify, Replay: replay } = request;
  const database =
    (snapshot ?? verify ?? replay)?.database ?? connector.source.postgres?.connection.database ?? "";
  if (verify) {
    const { schema, name, repair = "None", sample_percent: percent } = verify;
    const isSample = percent !== undefined && percent < 100;
    return { Verify: { database, schema, name, repair, ...(isSample ? { sample_percent: percent } : {}) } };
  }
  if (replay) {
    const { schema, name, keys } = replay;
    const violations = (keys ?? []).flatMap((key, at) => keyViolations(key, `/Replay/keys/${at}`));
    if (violations.length > 0) throw invalidRequest(violations);
    return { Replay: { database, schema, name, ...(keys ? { keys } : {}) } };
  }
  if (!snapshot) return {};
  return {
    Snapshot: {
      database,
      schema: snapshot.schema,
      name: snapshot.name,
      truncate: snapshot.truncate ?? false,
      force_parallel: snapshot.force_parallel ?? false,
    },
  };
}
