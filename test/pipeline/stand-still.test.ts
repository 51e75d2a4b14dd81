// A source that sends nothing, though the connector's changes are committed: the status says so, and for whom it waits.

import { expect, test } from "bun:test";
import { PipelineRig } from "../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";

test("a source that waits for standbys that are down: lag_bytes counts what it holds back, and a warning names them until they are taken out", async () => {
  await using server = await PostgresServer.start({ major: 17, settings: { fsync: "off" } });
  const source = "create table t (id int primary key)";
  await using rig = await PipelineRig.streaming(server, "standing", { source });
  await rig.source("insert into t values (1)");
  await rig.expectEqual();
  const setStandbys = async (names: string) => {
    await server.query(`alter system set synchronized_standby_slots = '${names}'`);
    await server.query("select pg_reload_conf()");
  };
  for (const name of ["first", "second"])
    await server.query(`select pg_create_physical_replication_slot('${name}', true)`);
  await setStandbys("first, second");
  const warning = () => {
    const { health } = rig.phases.at(-1)!;
    return health.kind === "warning" ? health.reason : null;
  };
  // The walsender reads its settings again some time after the reload.
  await waitFor("the walsender", async () => {
    await rig.source("select pg_logical_emit_message(false, 'test', '')");
    const waiting = "select from pg_stat_activity where wait_event = 'WaitForStandbyConfirmation'";
    return (await server.query(waiting)).length > 0;
  });
  const isTold = () => warning() !== null && (rig.progress?.lagBytes ?? 0) > 0;
  await rig.source("insert into t values (2)");
  await waitFor("the warning", isTold, { timeoutMs: 15_000 });
  expect(warning()).toContain("synchronized_standby_slots that do not receive it (first, second)");
  expect(warning()).toContain("ALTER SYSTEM SET synchronized_standby_slots = ''; SELECT pg_reload_conf();");
  expect(await rig.sink("select from t")).toHaveLength(1);
  expect(rig.phases.at(-1)?.phase.name).toBe("realtime");
  await setStandbys("");
  await rig.expectEqual();
  const isOver = () => warning() === null && rig.progress?.lagBytes === 0;
  await waitFor("its end", isOver, { timeoutMs: 15_000 });
  await rig.stop();
});
