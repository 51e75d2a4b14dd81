// System columns, which the source adds to each row on request: when the service read it, the LSN of its commit, and
// the operation. They come after the table's own columns.

import type { BatchBuilder } from "../../../change/batch-builder.ts";
import { NULL_LENGTH, type TupleForm } from "../../../change/change-batch.ts";
import { formatLsn, type Lsn, lsn } from "../../../change/lsn.ts";
import { type Column, qualifiedName, type Relation } from "../../../change/relation.ts";
import type { PostgresSourceConfig } from "../../../connector/config/source-config.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";

export type Operation = "read" | "insert" | "update" | "delete";

/** What a row's system columns are computed from. */
export interface RowOrigin {
  readonly operation: Operation;
  /** Of the commit record; for a copy, its consistent point. */
  readonly lsn: bigint;
}

interface SystemColumn {
  readonly column: Column;
  /** The column's value for a row, in the given form. */
  value(origin: RowOrigin, nowMs: number, form: TupleForm): Uint8Array;
  /** The same in SQL, for a copy. */
  sql(point: Lsn): string;
}

export interface SystemColumns {
  readonly columns: readonly Column[];
  /** Names the columns and how they are computed. Empty when there are none. */
  readonly transformation: string;
  readonly generators: readonly SystemColumn[];
}

const postgresEpochMs = 946_684_800_000;
const encoder = new TextEncoder();

/** `Char` has Debezium's letters. */
const operations = {
  Char: { read: "r", insert: "c", update: "u", delete: "d" },
  String: { read: "read", insert: "insert", update: "update", delete: "delete" },
  Int: { read: "0", insert: "1", update: "2", delete: "3" },
} as const;

export function systemColumnsOf(config: PostgresSourceConfig["system_columns"]): SystemColumns {
  const generators: SystemColumn[] = [];
  if (config.synced_at) generators.push(syncedAt);
  if (config.lsn) generators.push(commitLsn);
  const { encoding = "None", snapshot_as_read = false } = config.op ?? {};
  if (encoding !== "None") generators.push(operationColumn(encoding, snapshot_as_read ? "read" : "insert"));
  const columns = generators.map(({ column }) => column);
  const kinds = columns.map(({ name, typeName }) => `${name} ${typeName}`);
  const ofCopy = encoding === "None" ? "" : ` ${encoding} ${snapshot_as_read}`;
  const transformation = generators.length === 0 ? "" : `system(${kinds.join(", ")}${ofCopy})`;
  return { columns, generators, transformation };
}

const syncedAt: SystemColumn = {
  column: column("_sm_synced_at", -2, 1184, "timestamp with time zone"),
  value: (_, nowMs, form) =>
    form === "binary"
      ? int64(BigInt(nowMs - postgresEpochMs) * 1000n)
      : encoder.encode(new Date(nowMs).toISOString().replace("T", " ").replace("Z", "+00")),
  sql: () => "pg_catalog.statement_timestamp()",
};

const commitLsn: SystemColumn = {
  column: column("_sm_lsn", -3, 3220, "pg_lsn"),
  value: (origin, _, form) =>
    form === "binary" ? int64(origin.lsn) : encoder.encode(formatLsn(lsn(origin.lsn))),
  sql: (point) => `'${formatLsn(point)}'::pg_catalog.pg_lsn`,
};

function operationColumn(encoding: keyof typeof operations, ofCopy: Operation): SystemColumn {
  const words = operations[encoding];
  const isNumber = encoding === "Int";
  return {
    column: isNumber ? column("_sm_op", -4, 23, "integer") : column("_sm_op", -4, 25, "text"),
    value: ({ operation }, _, form) =>
      isNumber && form === "binary"
        ? Uint8Array.of(0, 0, 0, Number(words[operation]))
        : encoder.encode(words[operation]),
    sql: () => (isNumber ? words[ofCopy] : `'${words[ofCopy]}'::pg_catalog.text`),
  };
}

function column(name: string, number: number, typeOid: number, typeName: string): Column {
  return { name, number, typeOid, typmod: -1, typeName, binaryLayout: String(typeOid), addedValue: null };
}

/** Throws `column_conflict` when the table has a column of the same name. */
export function withSystemColumns(relation: Relation, system: SystemColumns): Relation {
  if (system.columns.length === 0) return relation;
  const taken = relation.columns.find(({ name }) => system.columns.some((own) => own.name === name));
  if (taken) {
    throw new MillraceError(
      "column_conflict",
      `Table ${qualifiedName(relation)} has a column ${taken.name}, which is the name of a system column: exclude it, or take the ` +
        "system column out of system_columns.",
    );
  }
  const transformation = [relation.transformation, system.transformation].filter(Boolean).join(" ");
  return { ...relation, columns: [...relation.columns, ...system.columns], transformation };
}

/** Appends the system columns to tuples. Rows of the same transaction and operation share their bytes. */
export class SystemColumnWriter {
  #key = "";
  #bytes = new Uint8Array();

  constructor(
    private readonly system: SystemColumns,
    private readonly form: TupleForm,
    private readonly now: () => number,
  ) {}

  /**
   * Appends to the builder's last tuple, which begins at `at`. `origin` null: an old row, whose system columns are not
   * known.
   */
  append(builder: BatchBuilder, at: number, origin: RowOrigin | null): void {
    const bytes = this.#suffix(origin);
    builder.reserve(bytes.length);
    const { arena } = builder;
    const count = ((arena[at]! << 8) | arena[at + 1]!) + this.system.columns.length;
    arena[at] = count >> 8;
    arena[at + 1] = count & 0xff;
    arena.set(bytes, builder.arenaEnd);
    builder.arenaEnd += bytes.length;
  }

  #suffix(origin: RowOrigin | null): Uint8Array {
    const nowMs = this.now();
    const key = origin === null ? "old" : `${origin.operation} ${origin.lsn} ${nowMs}`;
    if (key === this.#key) return this.#bytes;
    this.#key = key;
    this.#bytes = Buffer.concat(
      this.system.generators.flatMap((generator) => {
        if (origin === null) return [int32(NULL_LENGTH)];
        const value = generator.value(origin, nowMs, this.form);
        return [int32(value.length), value];
      }),
    );
    return this.#bytes;
  }
}

function int32(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setInt32(0, value);
  return bytes;
}

function int64(value: bigint): Uint8Array {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigInt64(0, BigInt.asIntN(64, value));
  return bytes;
}
