// SIGTERM ends the service in order: soon, with nothing left behind at the source, and a restart goes on.

import { expect, test } from "bun:test";
import { DemoStage } from "../../src/demo/demo-stage.ts";
import { loadInBackground } from "../support/loads/load-in-background.ts";
import { expectEqualSinks } from "../support/oracles/equal-sinks.ts";
import { compiledBinary } from "../support/program/compiled-binary.ts";
import { waitFor } from "../support/wait-for.ts";

test("SIGTERM under load ends it within 10 s, and the next start resumes", async () => {
  const command = [await compiledBinary()];
  await using stage = await DemoStage.setUp({
    scale: 0.05,
    signal: AbortSignal.timeout(60_000),
    announce: () => {},
    command,
  });
  await stage.createConnectors();
  {
    await using load = await loadInBackground(stage, 5);
    await waitFor("changes travel", () => load.transactions > 50 && stage.receiver.requests > 20);
    const started = performance.now();
    const exit = await stage.service.stop();
    expect(exit).toEqual({ code: 0, signal: null });
    expect(performance.now() - started).toBeLessThan(10_000);
    const query = "select pid from pg_stat_activity where application_name like 'millrace%'";
    await waitFor("its connections are closed", async () => (await stage.server.query(query)).length === 0);
    const slots = await stage.server.query<{ active: boolean }>("select active from pg_replication_slots");
    expect(slots).toEqual([{ active: false }, { active: false }]);
    await stage.service.launch();
  }
  await expectEqualSinks(stage);
}, 120_000);
