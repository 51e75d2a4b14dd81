// What a process of a lower term still does at the sink when it goes on after it was frozen. Its apply session is ended; here it opens others.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { carry, chunkOf, copyTable, missingOf, never } from "../../../support/contract/carrying.ts";
import { accounts, entries, rowsOf, update } from "../../../support/contract/history.ts";
import { PostgresSinkRig } from "../../../support/pipeline/postgres-sink-rig.ts";
import { transaction } from "../../../support/rows/batch-fixture.ts";
import { PostgresServer } from "../../../support/servers/postgres-server.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

async function begin(name: string): Promise<PostgresSinkRig> {
  const rig = await PostgresSinkRig.begin(server, name, { term: 1 });
  await missingOf(rig.sink);
  await copyTable(rig.sink, entries, []);
  await copyTable(rig.sink, accounts, rowsOf("1:a 2:b"));
  return rig;
}

const held = (rig: PostgresSinkRig) => rig.query<object>("select id, v from accounts order by id");
const termOf = (rig: PostgresSinkRig) => rig.query<object>("select owner, term::int from millrace.run_term");

test("a copy that it takes while the newer run has no session does not replace what that one wrote", async () => {
  await using first = await begin("term_copy");
  await using copy = await first.sink.copies.begin(accounts, "replace", "waits", never);
  await copy.start(false);
  {
    await using second = await first.takenOver(2);
    await missingOf(second.sink);
    await carry(second, [transaction(1, [update(1, "newer")])]);
    await second.die();
    // Between two of its attempts: nothing at the server tells that there is another run.
    const taken = copy.take(chunkOf(accounts, rowsOf("1:a 2:b")));
    await expect(taken).rejects.toMatchObject({ code: "lease_lost" });
    expect(await held(first)).toEqual([...rowsOf("1:newer 2:b")]);
    expect(await termOf(first)).toEqual([{ owner: "test", term: 2 }]);
  }
});

test("chunks that it stages, and a sink that it opens again, are refused while the newer run goes on", async () => {
  await using first = await begin("term_chunks");
  await using copy = await first.sink.copies.begin(accounts, "replace", "runs", never);
  await copy.start(true);
  await using second = await first.takenOver(2);
  const range = { kind: "range", range: { from: 0, to: 4 } } as const;
  const taken = copy.take(chunkOf(accounts, rowsOf("1:a"), { part: range }));
  await expect(taken).rejects.toMatchObject({ code: "lease_lost" });
  await expect(first.takenOver(1)).rejects.toMatchObject({ code: "lease_lost" });
  await missingOf(second.sink);
  await carry(second, [transaction(1, [update(1, "newer")])]);
  expect(await held(first)).toEqual([...rowsOf("1:newer 2:b")]);
});

test("a run of the same term goes on, and one of another installation begins its terms anew", async () => {
  await using first = await begin("term_again");
  await using again = await first.takenOver(1);
  await missingOf(again.sink);
  await carry(again, [transaction(1, [update(1, "again")])]);
  await again.query("update millrace.run_term set owner = 'else', term = 70");
  await again.die();
  await using third = await first.takenOver(2);
  expect(await termOf(third)).toEqual([{ owner: "test", term: 2 }]);
});

test("whoever restored the state from a backup reads what to do about terms that are ahead", async () => {
  await using first = await begin("term_restored");
  await first.query("update millrace.run_term set term = 9");
  await first.die();
  const opened = first.takenOver(2);
  await expect(opened).rejects.toMatchObject({ code: "lease_lost", retry: "transient" });
  const { message } = (await opened.catch((error: Error) => error)) as Error;
  const [sql] = /DELETE FROM .*;/.exec(message) ?? [];
  await first.query(sql ?? "");
  await using _second = await first.takenOver(2);
});

test("without terms nothing is recorded", async () => {
  await using rig = await PostgresSinkRig.begin(server, "term_none");
  expect(await termOf(rig)).toEqual([]);
});
