// Which log a checkpoint belongs to: a promoted standby is accepted; another cluster, or one without the delivered
// changes, is not.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { chown, cp, rm } from "node:fs/promises";
import { join } from "node:path";
import { lsn } from "../../../../src/change/lsn.ts";
import type { MillraceError } from "../../../../src/errors/millrace-error.ts";
import { formatLog, judgeLog, parseTimelineEnds } from "../../../../src/source/postgres/slot/source-log.ts";
import { PipelineRig } from "../../../support/pipeline-rig.ts";
import { PostgresServer } from "../../../support/postgres-server.ts";
import { waitFor } from "../../../support/wait-for.ts";

// Archive recovery requires `restore_command`. There is no archive.
const settings = { fsync: "off", restore_command: "false" };

let server: PostgresServer;
let other: PostgresServer;
beforeAll(async () => {
  [server, other] = await Promise.all([
    PostgresServer.start({ settings }),
    PostgresServer.start({ settings }),
  ]);
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await other[Symbol.asyncDispose]();
});

const dataOf = (at: PostgresServer) => join(at.directory, "data");

/** Starts the server at the end of its log, as a promoted standby, on the next timeline. */
async function promote(at: PostgresServer): Promise<void> {
  const signal = join(dataOf(at), "recovery.signal");
  await Bun.write(signal, "");
  if (process.getuid?.() === 0) await chown(signal, 65534, 65534);
  await at.launch();
  // It accepts queries before the promotion is complete.
  await waitFor("the end of recovery", async () => {
    const [row] = await at.query<{ done: boolean }>("select not pg_is_in_recovery() as done");
    return row?.done;
  });
}

/** Replaces the server's data with `copy`. The server is stopped. */
async function replaceData(at: PostgresServer, copy: string): Promise<void> {
  await rm(dataOf(at), { recursive: true, force: true });
  await cp(copy, dataOf(at), { recursive: true });
  if (process.getuid?.() !== 0) return;
  for await (const path of new Bun.Glob("**").scan({ cwd: dataOf(at), dot: true, onlyFiles: false })) {
    await chown(join(dataOf(at), path), 65534, 65534);
  }
  await chown(dataOf(at), 65534, 65534);
}

async function failure(rig: PipelineRig): Promise<MillraceError> {
  rig.start();
  return (await rig.ended()) as MillraceError;
}

test("a promoted standby is accepted; one without the delivered changes, or another cluster, is not", async () => {
  await using rig = await PipelineRig.create(server, "log", { sinkServer: other });
  await rig.source("create table t (id int primary key); insert into t values (1)");
  rig.start();
  await rig.expectEqual();
  await rig.stop();
  const log = async () =>
    (await rig.sink<{ log: string }>("select source_log as log from millrace.checkpoint"))[0]?.log;
  expect(await log()).toMatch(/^\d+\/1$/);

  await server.stop();
  await promote(server);
  await rig.source("insert into t values (2)");
  rig.start();
  await rig.expectEqual();
  expect(await log()).toMatch(/^\d+\/2@[0-9A-F]+\/[0-9A-F]+$/);
  await rig.stop();

  // A standby without the following changes is promoted, and then writes more than the checkpoint is behind.
  await server.stop();
  const before = join(server.directory, "before");
  await cp(dataOf(server), before, { recursive: true });
  await server.launch();
  await rig.source("insert into t select g from generate_series(3, 100) g");
  rig.start();
  await rig.expectEqual();
  await rig.stop();
  await server.stop();
  await replaceData(server, before);
  await promote(server);
  await rig.source(
    "create table more (x text); insert into more select repeat('x', 1000) from generate_series(1, 2000)",
  );
  const lacking = await failure(rig);
  expect(lacking.code).toBe("source_behind");
  expect(lacking.message).toContain("a standby was promoted that had not received everything");

  await rig.sink("update millrace.checkpoint set source_log = '1/1'");
  const replaced = await failure(rig);
  expect(replaced.code).toBe("source_replaced");
  expect(replaced.message).toContain("instead of 1)");
});

test("a log is judged by where it left the checkpoint's timeline", () => {
  const at = (place: bigint, log?: string) => ({
    ...{ resumeLsn: lsn(place), partial: null, lastVersion: 0n },
    ...(log === undefined ? {} : { log }),
  });
  const ends = parseTimelineEnds(
    '1\t0/64\tno recovery target specified\n\n2\t0/C8\tat restore point "a b"\n',
  );
  expect(ends.map(({ end }) => end)).toEqual([lsn(100n), lsn(200n)]);
  const now = { systemId: "7", timeline: 3, ends };
  expect(formatLog(now)).toBe("7/3@0/C8");
  const code = (checkpoint: ReturnType<typeof at>) => judgeLog(now, checkpoint)?.code ?? null;
  expect(code(at(500n))).toBeNull();
  expect(code(at(500n, "7/3@0/C8"))).toBeNull();
  expect(code(at(100n, "7/1"))).toBeNull();
  expect(code(at(101n, "7/1"))).toBe("source_behind");
  expect(judgeLog(now, at(101n, "7/1"), true)).toBeNull();
  expect(judgeLog(now, at(1n, "7/4"), true)?.code).toBe("source_behind");
  expect(code(at(200n, "7/2@0/64"))).toBeNull();
  expect(code(at(200n, "7/2@0/63"))).toBe("source_behind");
  expect(code(at(1n, "7/4"))).toBe("source_behind");
  expect(code(at(1n, "8/3"))).toBe("source_replaced");
});
