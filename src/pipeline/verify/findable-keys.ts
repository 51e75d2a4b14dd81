// Makes sure that the source finds its rows by the keys that both sides were compared by. Where the sink's type changes a key (`007` is 7 in an
// integer), it does not: such a row would seem to be gone, and the sink's would be removed.

import { qualifiedName } from "../../change/relation.ts";
import type { RowDifference } from "../../comparison/unmatched-rows.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import type { OpenedSides } from "./opened-sides.ts";
import { scan } from "./scan-sides.ts";
import type { VerifyEnvironment } from "./verify-environment.ts";

const keysAtOnce = 10_000;

/** Throws `unsupported_kind`. */
export async function requireFindable(
  environment: VerifyEnvironment,
  opened: OpenedSides,
  differences: readonly RowDifference[],
  signal: AbortSignal,
): Promise<void> {
  const { comparison, table } = opened;
  const columns = comparison.columns.filter(({ number }) => comparison.key.includes(number));
  if (columns.every(({ readAs }) => readAs === null)) return;
  const keysAlone = { ...opened, comparison: { ...comparison, columns } };
  const known = differences.flatMap(({ key, kind }) => (kind === "Extra" ? [] : [key]));
  for (let at = 0; at < known.length; at += keysAtOnce) {
    const keys = known.slice(at, at + keysAtOnce);
    let found = 0;
    await scan(environment, keysAlone, "source", { kind: "texts", keys }, signal, () => {
      found++;
    });
    if (found < keys.length) throw notFindable(table.relation);
  }
}

function notFindable(relation: OpenedSides["table"]["relation"]): MillraceError {
  return new MillraceError(
    "unsupported_kind",
    `Rows of ${qualifiedName(relation)} cannot be repaired one by one: the types of its key at the sink change keys, so that the source does not find ` +
      "its rows by them. A Snapshot task with truncate copies it anew.",
  );
}
