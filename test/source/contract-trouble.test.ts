// What src/source/source.ts promises about stopping and errors, tested with the streaming source on a real server.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Checkpoint } from "../../src/change/checkpoint.ts";
import { lsn } from "../../src/change/lsn.ts";
import type { TableShape } from "../../src/change/relation.ts";
import { MillraceError } from "../../src/errors/millrace-error.ts";
import type { Source } from "../../src/source/source.ts";
import { outcomeOf } from "../support/contract/carrying.ts";
import { begun, never, read } from "../support/contract/source.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off", wal_sender_timeout: "2s" } });
});
afterAll(() => server[Symbol.asyncDispose]());

describe("stopping", () => {
  const calls: Readonly<
    Record<string, (source: Source, table: TableShape, from: Checkpoint) => Promise<unknown>>
  > = {
    tables: (source) => source.tables(),
    publish: (source) => source.publish(),
    tablesChanged: (source) => source.tablesChanged(),
    snapshotPoint: (source) => source.snapshotPoint(never),
    createSlot: (source) => source.createSlot(never),
    checkSlot: (source, _, from) => source.checkSlot(from),
    checkLog: (source, _, from) => source.checkLog(from),
    readDenial: (source, table) => source.readDenial(table),
    measure: (source, table) => source.measure(table),
    keptLog: (source) => source.keptLog(),
    stream: (source, _, from) => source.stream(from, "text"),
  };

  test.each(Object.keys(calls))("the signal ends %s while the server does not answer", async (name) => {
    await using at = await begun(server);
    const [table] = await at.source.tables();
    at.proxy.stall();
    const reason = new Error("stopped");
    const ended = outcomeOf(name, calls[name]!(at.source, table!, at.checkpoint));
    await Bun.sleep(20);
    at.life.stop(reason);
    expect(await ended).toBe(reason);
  });

  test("the signal ends the next batch and the rows of a copy, and disposal closes all connections", async () => {
    await using at = await begun(server);
    await at.sql("insert into t select g, repeat('x', 1000) from generate_series(1, 20000) g");
    const [table] = await at.source.tables();
    await using point = await at.source.snapshotPoint(never);
    const stream = await at.source.stream(at.checkpoint, "text");
    await read(stream, 20_000);
    const waiting = outcomeOf("the next batch", stream.next());
    const chunks = at.source.readTable(table!, point, "text").chunks[Symbol.asyncIterator]();
    await chunks.next();
    at.proxy.stall();
    const reading = outcomeOf(
      "the rows",
      (async () => {
        while (!(await chunks.next()).done) {}
      })(),
    );
    const reason = new Error("stopped");
    at.life.stop(reason);
    expect(await waiting).toBe(reason);
    expect(await reading).toBe(reason);
    at.proxy.resume();
    await stream[Symbol.asyncDispose]();
    await point[Symbol.asyncDispose]();
    await at.source[Symbol.asyncDispose]();
    await waitFor("the last connection to go", async () => (await at.sessions()) === 0);
  });

  test("disposal after regular use closes all connections as well", async () => {
    await using at = await begun(server);
    const stream = await at.source.stream(at.checkpoint, "text");
    await (await at.source.snapshotPoint(never))[Symbol.asyncDispose]();
    await stream[Symbol.asyncDispose]();
    await at.source[Symbol.asyncDispose]();
    await waitFor("the last connection to go", async () => (await at.sessions()) === 0);
  });
});

describe("an error", () => {
  test("is transient after a broken connection", async () => {
    await using at = await begun(server);
    await using stream = await at.source.stream(at.checkpoint, "text");
    const ended = outcomeOf("the next batch", stream.next());
    at.proxy.cut();
    const error = await ended;
    expect(error).toBeInstanceOf(MillraceError);
    expect(error).toMatchObject({ retry: "transient" });
  });

  test("is permanent if the slot is gone, or ahead of the checkpoint", async () => {
    await using at = await begun(server);
    const behind = { ...at.checkpoint, resumeLsn: lsn(1n) };
    expect(await outcomeOf("a slot ahead", at.source.checkSlot(behind))).toMatchObject({
      code: "slot_ahead",
      retry: "permanent",
    });
    expect(await outcomeOf("the slot", at.source.checkSlot(at.checkpoint))).toBeNull();
    await at.sql(`select pg_drop_replication_slot('${at.name}')`);
    expect(await outcomeOf("no slot", at.source.checkSlot(at.checkpoint))).toMatchObject({
      code: "slot_missing",
      retry: "permanent",
    });
  });
});
