// Which log a checkpoint belongs to: a promoted standby is accepted; another cluster, or one without the delivered
// changes, is not.

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Checkpoint } from "../../../../src/change/checkpoint.ts";
import { lsn } from "../../../../src/change/lsn.ts";
import type { MillraceError } from "../../../../src/errors/millrace-error.ts";
import { formatLog, judgeLog, parseTimelineEnds } from "../../../../src/source/postgres/slot/source-log.ts";
import { PipelineRig } from "../../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../../support/servers/postgres-server.ts";
import { keepData, promotable, promote, setBack } from "../../../support/servers/set-back.ts";

const settings = { fsync: "off", ...promotable };

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
  const before = await keepData(server);
  await server.launch();
  await rig.source("insert into t select g from generate_series(3, 100) g");
  rig.start();
  await rig.expectEqual();
  await rig.stop();
  await server.stop();
  await setBack(server, before);
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
    resumeLsn: lsn(place),
    partial: null,
    lastVersion: 0n,
    ...(log === undefined ? {} : { log }),
  });
  const ends = parseTimelineEnds(
    '1\t0/64\tno recovery target specified\n\n2\t0/C8\tat restore point "a b"\n',
  );
  expect(ends.map(({ end }) => end)).toEqual([lsn(100n), lsn(200n)]);
  const now = { systemId: "7", timeline: 3, ends };
  expect(formatLog(now)).toBe("7/3@0/C8");
  const code = (checkpoint: Checkpoint) => judgeLog(now, checkpoint)?.code ?? null;
  expect(code(at(500n))).toBeNull();
  expect(code(at(500n, "7/3@0/C8"))).toBeNull();
  expect(code(at(100n, "7/1"))).toBeNull();
  expect(code(at(101n, "7/1"))).toBe("source_behind");
  expect(judgeLog(now, at(101n, "7/1"), { wasStandby: true })).toBeNull();
  expect(judgeLog(now, at(1n, "7/4"), { wasStandby: true })?.code).toBe("source_behind");
  expect(code({ ...at(1n, "7/1"), reached: lsn(100n) })).toBeNull();
  expect(code({ ...at(1n, "7/1"), reached: lsn(101n) })).toBe("source_behind");
  expect(code({ ...at(1n, "7/1"), partial: { commitLsn: lsn(99n), ordinal: 5 } })).toBeNull();
  expect(code({ ...at(1n, "7/1"), partial: { commitLsn: lsn(100n), ordinal: 0 } })).toBe("source_behind");
  expect(code(at(200n, "7/2@0/64"))).toBeNull();
  expect(code(at(200n, "7/2@0/63"))).toBe("source_behind");
  expect(code(at(1n, "7/4"))).toBe("source_behind");
  expect(code(at(1n, "8/3"))).toBe("source_replaced");
  const words = (isResumable: boolean) => judgeLog(now, at(101n, "7/1"), { isResumable })?.message;
  expect(words(true)).toContain("before the checkpoint 0/65");
  expect(words(true)).toContain("send the command Resume");
  expect(words(false)).toContain("send the command ReInitialize");
  expect(words(false)).not.toContain("Resume");
});
