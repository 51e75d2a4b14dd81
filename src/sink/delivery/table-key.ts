// What a table is found by in a Map. No name has a NUL, so no two tables share it, whatever they are called. Stored receipts are found by a
// hash of it: it stays as it is.

export function tableKey(schema: string, table: string): string {
  return `${schema}\0${table}`;
}
