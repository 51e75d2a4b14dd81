// When a comparison takes its point: a stream that is far behind comes there first.

import { expect, test } from "bun:test";
import { openSides } from "../../../src/pipeline/verify/opened-sides.ts";
import { maxLagBytes, type VerifyEnvironment } from "../../../src/pipeline/verify/verify-environment.ts";
import { MemorySource } from "../../support/pipeline/memory-source.ts";
import { copyEnvironment, runningStream } from "../../support/pipeline/scripted-copy.ts";

async function openedWith(lagBytes: number): Promise<readonly string[]> {
  const log: string[] = [];
  const source = new MemorySource();
  const table = source.add("t", [[1, "v"]], [0]);
  const copying = copyEnvironment(source, {} as never, runningStream(log));
  const environment = {
    ...copying,
    source: Object.assign(source, { verification: { hashing: async () => ({ isUtf8: true, probe: "" }) } }),
    sink: { verification: { open: () => Promise.reject(new Error("opened")) } },
    lanes: 1,
    lagBytes: () => lagBytes,
  } as unknown as VerifyEnvironment;
  await expect(openSides(environment, table, null, new AbortController().signal)).rejects.toThrow("opened");
  return log.map((line) => line.replace(/ \d+$/, ""));
}

test("only where the stream is far behind, it is waited for before a point is held", async () => {
  expect(await openedWith(maxLagBytes)).toEqual(["at"]);
  expect(await openedWith(maxLagBytes + 1)).toEqual(["passed", "at"]);
});
