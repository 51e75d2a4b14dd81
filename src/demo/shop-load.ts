// The demo's application: transactions of inserts, updates, deletes and primary key changes, one after the other over
// one connection, until the signal aborts.

import type { Client } from "pg";

export interface LoadOptions {
  /** The pause after each transaction, in milliseconds. */
  readonly pauseMs: number;
  readonly signal: AbortSignal;
  /** Called after each commit with the number of rows that the transaction changed. */
  readonly onCommit?: (rows: number) => void;
  /** Returns a number in [0, 1). */
  readonly random?: () => number;
}

/** A condition that picks a random share of the table's rows, in percent, without reading the whole table. */
function some(table: string, share: number): string {
  return `ctid in (select ctid from ${table} tablesample bernoulli (${share}))`;
}

/** Each entry is one statement of a transaction. They do not depend on each other. */
const statements: readonly string[] = [
  `insert into customers (email, name, tags, address)
   select 'new' || i || '@example.com', repeat('n', i), array[null, i::text], '{"zip": "00501", "big": 12345678901234567890}'
     from generate_series(1, 20) i`,
  `update customers set balance = balance * 1.01 + 0.01, active = not active where ${some("customers", 0.2)}`,
  `update customers set id = id + 1000000000 where ${some("customers", 0.01)} and id < 1000000000`,
  `delete from customers where ${some("customers", 0.05)}`,
  `insert into orders (customer_id, total) select i, random()::numeric from generate_series(1, 30) i`,
  `update orders set status = 'shipped', note = E'shipped\\n' || clock_timestamp() where ${some("orders", 0.2)}`,
  `update orders set id = gen_random_uuid() where ${some("orders", 0.02)}`,
  `delete from orders where ${some("orders", 0.05)}`,
  `update order_lines set quantity = quantity + 1, price = random() * 'Infinity' where ${some("order_lines", 0.01)}`,
  `update order_lines set price = random() where ${some("order_lines", 0.1)}`,
  `delete from order_lines where ${some("order_lines", 0.05)}`,
  `insert into telemetry.readings
   select i, clock_timestamp(), random() * 40, decode(md5(random()::text), 'hex') from generate_series(1, 40) i`,
  `delete from telemetry.readings where ${some("telemetry.readings", 0.1)}`,
  `update "Price List" set "delivery time" = random() * interval '10 days' where ${some('"Price List"', 1)}`,
  `insert into audit_log (entry) select json_build_object('by', 'load', 'at', clock_timestamp())`,
];

/** Runs until the signal aborts. Stops between two transactions. */
export async function runLoad(client: Client, options: LoadOptions): Promise<void> {
  const random = options.random ?? Math.random;
  while (!options.signal.aborted) {
    const rows = await transact(client, 1 + Math.floor(random() * 5), random);
    options.onCommit?.(rows);
    await pause(options.pauseMs, options.signal);
  }
}

/** Rolls back one transaction in thirteen. None of its changes may reach a sink. */
async function transact(client: Client, length: number, random: () => number): Promise<number> {
  let rows = 0;
  await client.query("begin");
  for (let i = 0; i < length; i += 1) {
    const statement = statements[Math.floor(random() * statements.length)];
    if (statement) rows += (await client.query(statement)).rowCount ?? 0;
  }
  const commits = random() > 1 / 13;
  await client.query(commits ? "commit" : "rollback");
  return commits ? rows : 0;
}

function pause(pauseMs: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, pauseMs);
    signal.addEventListener("abort", end, { once: true });
  });
}
