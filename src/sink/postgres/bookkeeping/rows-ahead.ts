// Rows that were copied by key, and so are ahead of the stream until it has passed their point: changes that it brings of them meanwhile are
// older. The table's other rows are not ahead.

import type { RowKey } from "../../../change/copy-part.ts";
import type { Lsn } from "../../../change/lsn.ts";
import type { Relation } from "../../../change/relation.ts";
import type { CopyLedger } from "./copy-ledger.ts";

/** OIDs of types whose equal values have the same text: bool, bytea, integers, text, oid, varchar, date, timestamps, uuid. */
const exactTypes: ReadonlySet<number> = new Set([16, 17, 20, 21, 23, 25, 26, 1043, 1082, 1114, 1184, 2950]);

/** Whether equal keys have the same text. */
export function isKeyExact({ key, columns }: Pick<Relation, "key" | "columns">): boolean {
  return key.every((i) => exactTypes.has(columns[i]!.typeOid));
}

/** Of all tables. With more, none is known: that is slower and never wrong, and a repair may copy millions of rows while the source is quiet. */
const mostKeys = 100_000;

export class RowsAhead {
  /** Keys by the table's OID. Any row of a table that is not here may be ahead: an earlier run may have copied it. */
  readonly #keys = new Map<number, Set<string>>();

  constructor(private readonly ledger: Pick<CopyLedger, "pointOf">) {}

  /** `before`: the point of the table's copy before these rows were copied. `at`: the stream's position. */
  copied(tableId: number, keys: readonly RowKey[], before: Lsn | null, at: Lsn): void {
    const isNoneAhead = before !== null && before <= at;
    const ahead = isNoneAhead ? new Set<string>() : this.#keys.get(tableId);
    if (!ahead) return;
    for (const key of keys) ahead.add(textOf(key));
    this.#keys.set(tableId, ahead);
    const known = this.#keys.values().reduce((sum, { size }) => sum + size, 0);
    if (known > mostKeys) this.forget();
  }

  copiedWhole(tableId: number): void {
    this.#keys.delete(tableId);
  }

  forget(): void {
    this.#keys.clear();
  }

  /** Whether the row under the key may be newer than a change that was committed at `commitLsn`. */
  mayHold(relation: Relation, value: RowKey, commitLsn: Lsn): boolean {
    const { id } = relation;
    const point = this.ledger.pointOf(id);
    if (point === null || commitLsn >= point) return false;
    return !isKeyExact(relation) || (this.#keys.get(id)?.has(textOf(value)) ?? true);
  }
}

function textOf(key: RowKey): string {
  return JSON.stringify(key);
}
