// Parses a table's name as people write it: `orders`, `shop.orders`, `"My Schema"."My.Table"`. Pure.

import { CommandFailure } from "../service-client.ts";

const quoted = '"(?:[^"]|"")+"';
const name = new RegExp(`^(?:(${quoted}|[^".]+)\\.)?(${quoted}|[^".]+)$`);

/** The default schema is `public`. Upper case is kept, even without quotes. Throws CommandFailure. */
export function parseTableName(text: string): { readonly schema: string; readonly name: string } {
  const match = name.exec(text);
  if (!match) {
    throw new CommandFailure(
      `${text} is no table: write schema.table, with "…" around what has a dot in it.`,
    );
  }
  const [, schema, table] = match;
  return { schema: schema === undefined ? "public" : unquoted(schema), name: unquoted(table ?? "") };
}

function unquoted(text: string): string {
  return text.startsWith('"') ? text.slice(1, -1).replaceAll('""', '"') : text;
}
