// The kinds of sinks that are held to the contract: one line each.

import { afterAll, beforeAll, describe } from "bun:test";
import type { SinkBench, SinkGround, SinkKind } from "./bench.ts";
import { memoryKind } from "./memory.ts";
import { postgresKind } from "./postgres.ts";
import { webhookKind } from "./webhook.ts";

let sinkKinds: readonly SinkKind[] = [memoryKind, postgresKind, webhookKind];

/** The suites that are loaded from here on are for these kinds instead: what they need is not on every machine. */
export function describeInstead(kinds: readonly SinkKind[]): void {
  sinkKinds = kinds;
}

/** The suite `what`, once for each kind, on ground of its own: `ground.bench` is there once its tests run. */
export function describeSinks(
  what: string,
  suite: (kind: SinkKind, ground: Pick<SinkGround, "bench">) => void,
): void {
  describe.each(sinkKinds)(`a $name sink${what === "" ? "" : `, ${what}`}`, (kind) => {
    let ground: SinkGround;
    beforeAll(async () => {
      ground = await kind.start();
    });
    afterAll(() => ground[Symbol.asyncDispose]());
    suite(kind, { bench: (): Promise<SinkBench> => ground.bench() });
  });
}
