// Whatever moment the service dies at, nothing is lost, and the Postgres sink has nothing twice.

import { afterEach, describe, test } from "bun:test";
import { DemoStage } from "../../src/demo/demo-stage.ts";
import { loadInBackground } from "../support/loads/load-in-background.ts";
import { matrixTest } from "../support/matrix.ts";
import { expectEqualSinks } from "../support/oracles/equal-sinks.ts";
import { compiledBinary } from "../support/program/compiled-binary.ts";
import { untilStreaming } from "../support/program/until-streaming.ts";

let stage: DemoStage | null = null;

afterEach(async () => {
  await stage?.[Symbol.asyncDispose]();
  stage = null;
});

async function setUp(scale: number): Promise<DemoStage> {
  const command = [await compiledBinary()];
  const signal = AbortSignal.timeout(60_000);
  stage = await DemoStage.setUp({ scale, signal, announce: () => {}, command });
  return stage;
}

/** `test:long` kills more often. */
const kills = Number(process.env.MILLRACE_KILLS ?? 5);

/** Some milliseconds between the two, at random: the moment is the point of the test. */
const sometime = (fromMs: number, toMs: number) => Bun.sleep(fromMs + Math.random() * (toMs - fromMs));

describe("kill -9", () => {
  test(`${kills} times at random moments under write load`, async () => {
    const on = await setUp(0.1);
    await on.createConnectors();
    await untilStreaming(on);
    {
      await using _load = await loadInBackground(on, 5);
      for (let kill = 1; kill <= kills; kill += 1) {
        await sometime(0, 1_500);
        await on.service.kill();
        // Every fourth start is itself interrupted at some moment; the others reach their work.
        if (kill % 4 === 0) on.service.spawn();
        else await on.service.launch();
      }
      await on.service.untilReady();
    }
    await expectEqualSinks(on);
  }, 300_000);

  // Every day test/pipeline/copy/range-copies.test.ts dies in copies.
  matrixTest(
    "during the initial copy",
    async () => {
      const on = await setUp(0.6);
      {
        await using _load = await loadInBackground(on, 20);
        await on.createConnectors();
        for (let kill = 1; kill <= 4; kill += 1) {
          await sometime(20, 600);
          await on.service.kill();
          await on.service.launch();
        }
        await untilStreaming(on);
      }
      await expectEqualSinks(on);
    },
    300_000,
  );
});
