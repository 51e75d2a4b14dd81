// Digests of a table's rows as of a snapshot, for their comparison with a sink's.

import { type Client, escapeIdentifier } from "pg";
import type { Column, TableShape } from "../../../change/relation.ts";
import { digestSql, scanSettings, scanValues, serverQuery } from "../../../comparison/digest-sql.ts";
import type {
  ComparedColumn,
  DigestScan,
  HashingServer,
  RowComparison,
} from "../../../comparison/row-comparison.ts";
import type { TableSelection } from "../catalog/table-selection.ts";
import { hashedColumnSql, isNullSql, outputTextSql } from "../shapes/column-hash.ts";
import { isInPart, readAsOf, setSalt, type TableCopyRequest } from "./table-copy.ts";

export interface DigestRequest extends Omit<TableCopyRequest, "form" | "part" | "count"> {
  readonly comparison: RowComparison;
  readonly scan: DigestScan;
}

export async function readHashing(client: Client): Promise<HashingServer> {
  const { rows } = await client.query<HashingServer>(serverQuery);
  return rows[0]!;
}

/** As `copyTableChunks`, in binary form. */
export function tableDigests(request: DigestRequest): AsyncGenerator<Uint8Array> {
  const { table, selection, comparison, scan } = request;
  return readAsOf(request, { rows: 0 }, async (client, whole) => {
    await client.query(scanSettings);
    if (scan.kind === "buckets" && scan.range) await client.query("set local enable_seqscan = off");
    for (const { name, value } of scanValues(scan))
      await client.query("select set_config($1, $2, true)", [name, value]);
    if (selection.hashedColumns(table.relation.schema, table.relation.name).length > 0)
      await setSalt(client, selection);
    return `copy (${digestSql(comparison, scan, digested(table, selection, whole))}) to stdout (format binary)`;
  });
}

function digested(table: TableShape, selection: TableSelection, from: string) {
  const { schema, name, columns } = table.relation;
  const hashed = selection.hashedColumns(schema, name);
  const named = (number: number) => columns.find((column) => column.number === number)!;
  return {
    from,
    value: ({ number, readAs }: ComparedColumn) => valueSql(named(number), readAs, hashed),
    hasWantedKey: isInPart(table, selection, { kind: "rows", keys: [] }),
  };
}

/** The value as it is sent. `readAs`: as a type of the sink reads its text. */
function valueSql({ name }: Column, readAs: string | null, hashed: readonly string[]): string {
  if (hashed.includes(name)) return hashedColumnSql(name);
  if (readAs === null) return escapeIdentifier(name);
  return `(case when not ${isNullSql(name)} then ${outputTextSql(name)} end)::${readAs}`;
}
