// Connectors that are changed, restarted, stopped and started by several clients at once while rows come: each change takes effect by
// a run of its own, and nothing is lost or doubled by it.

import { expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { connectorIds, DemoStage } from "../../src/demo/demo-stage.ts";
import { loadInBackground } from "../support/loads/load-in-background.ts";
import { expectEqualSinks } from "../support/oracles/equal-sinks.ts";
import { compiledBinary } from "../support/program/compiled-binary.ts";
import { untilStreaming } from "../support/program/until-streaming.ts";
import { waitFor } from "../support/wait-for.ts";

setDefaultTimeout(300_000);

const clients = 4;
const changesOfEach = Number(process.env.MILLRACE_CHANGES ?? 12);
const seed = Number(process.env.MILLRACE_FUZZ_SEED ?? Date.now() % 2 ** 31);

interface Change {
  readonly id: (typeof connectorIds)[number];
  readonly kind: "rename" | "pace" | "replace" | "Restart" | "Stop" | "Start";
  readonly number: number;
  readonly pauseMs: number;
}

const change: fc.Arbitrary<Change> = fc.record({
  id: fc.constantFrom(...connectorIds),
  kind: fc.constantFrom("rename", "pace", "replace", "Restart", "Stop", "Start"),
  number: fc.integer({ min: 1, max: 500 }),
  pauseMs: fc.integer({ min: 0, max: 300 }),
});

async function carryOut({ api }: DemoStage, { id, kind, number }: Change): Promise<void> {
  const path = `/api/v1/connectors/${id}`;
  switch (kind) {
    case "rename":
      await api.call("PATCH", path, { name: `number ${number}` });
      break;
    case "pace":
      await api.call("PATCH", path, { limits: { cdc: { flush_interval_ms: number } } });
      break;
    case "replace": {
      // What was read, secrets left out, edited and sent back.
      const { connector } = await api.connector(id);
      await api.call("POST", path, { ...connector, name: `whole ${number}` });
      break;
    }
    default:
      await api.command(id, kind);
  }
}

test(`changes by ${clients} clients at once, seed ${seed}`, async () => {
  const command = [await compiledBinary()];
  const signal = AbortSignal.timeout(60_000);
  await using stage = await DemoStage.setUp({ scale: 0.1, signal, announce: () => {}, command });
  await stage.createConnectors();
  await untilStreaming(stage);
  const script = fc.array(change, { minLength: changesOfEach, maxLength: changesOfEach });
  const scripts = fc.sample(script, { numRuns: clients, seed });
  {
    await using load = await loadInBackground(stage, 3);
    const play = async (changes: readonly Change[]) => {
      for (const each of changes) {
        await carryOut(stage, each);
        await Bun.sleep(each.pauseMs);
      }
    };
    await Promise.all(scripts.map(play));
    await waitFor("the load", () => load.transactions > 100);
  }
  for (const id of connectorIds) await stage.api.command(id, "Start");
  await untilStreaming(stage);
  await expectEqualSinks(stage);

  for (const id of connectorIds) {
    const history = await stage.api.call<{ run_id: string; created_at: string }[]>(
      "GET",
      `/api/v1/connector/history/${id}`,
    );
    const times = history.map(({ created_at }) => created_at);
    expect(times).toEqual(times.toSorted());
    // An old run's last word may come behind the next one's first.
    expect(new Set(history.map(({ run_id }) => run_id))).toContain((await stage.api.connector(id)).run_id);
  }
  const slots = await stage.server.query("select slot_name from pg_replication_slots where not temporary");
  expect(slots).toHaveLength(connectorIds.length);
});
