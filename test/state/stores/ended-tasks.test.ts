// Tasks that have ended are kept up to a bound, so that a schedule of years does not fill the state.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { cancelTask, newTask } from "../../../src/connector/task-state.ts";
import type { State } from "../../../src/state/open-state.ts";
import { storedConnector } from "../../support/api/sample-connector.ts";
import { StateOver } from "../../support/runtime/state-over.ts";

let over: StateOver;
let state: State;

// The embedded one would take long to store them.
beforeAll(async () => {
  over = await StateOver.start("postgres");
  ({ state } = over);
  for (const id of ["many", "few"]) await state.connectors.insert(storedConnector(id));
});
afterAll(() => over[Symbol.asyncDispose]());

async function create(connectorId: string, name: string): Promise<string> {
  const Verify = { database: "shop", schema: "public", name, repair: "None" as const };
  return (await state.tasks.create(connectorId, newTask(Bun.randomUUIDv7(), { Verify }, Date.now()))).id;
}

async function end(connectorId: string, id: string, to: "Done" | "Failed"): Promise<void> {
  const found = { as_of_lsn: "0/1", rows: 7, ranges: 0, missing: 0, extra: 0, changed: 0, repaired: 0 };
  const result = { ...found, sample: [] };
  await state.tasks.change(connectorId, id, (task) => ({ ...task, state: to, result }));
}

const countDone = async () => (await state.tasks.countByState(null)).get("Done");

test("the newest thousand of a connector stay, in each state; what has not ended, and what was found, stays whole", async () => {
  const pending = await create("many", "pending");
  const failed = await create("many", "failed");
  await end("many", failed, "Failed");
  const cancelled = await create("many", "cancelled");
  await state.tasks.change("many", cancelled, cancelTask);
  const another = await create("few", "t");
  await end("few", another, "Done");
  const first = await create("many", "first");
  await end("many", first, "Done");
  await over.query?.(
    `insert into millrace.tasks (id, connector_id, state, spec, spec_key, attempt, rows, bytes, estimated_rows, created_at)
     select gen_random_uuid(), 'many', 'Done', '{}', i, 0, 0, 0, 0, now() from generate_series(1, 1200) i`,
  );
  let last = "";
  for (let ended = 0; ended < 100; ended++) {
    last = await create("many", "t");
    await end("many", last, "Done");
  }
  expect(await countDone()).toBe(1_000 + 1);
  for (let ended = 0; ended < 99; ended++) await end("many", await create("many", "t"), "Done");
  expect(await countDone()).toBe(1_000 + 99 + 1);
  expect(await state.tasks.find("many", first)).toBeNull();
  for (const id of [pending, failed, cancelled, last])
    expect(await state.tasks.find("many", id)).not.toBeNull();
  expect(await state.tasks.find("few", another)).not.toBeNull();
  const verified = await state.tasks.verified("many");
  expect(verified.map(({ name }) => name)).toEqual(["first", "t"]);
  await state.tasks.forgetVerified("many", null);
  expect(await state.tasks.verified("many")).toEqual([]);
  expect(await state.tasks.verified("few")).toHaveLength(1);
});
