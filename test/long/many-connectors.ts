// A thousand connectors in one state, read and changed by many at once.

import { expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ServiceProcess } from "../../src/demo/service-process.ts";
import { compiledBinary } from "../support/program/compiled-binary.ts";

setDefaultTimeout(120_000);

const count = 1_000;
const listMs = 100;
const connection = { host: "db1", user: "millrace", password: "planted-3c", database: "shop" };
const connector = (i: number) => ({
  id: `c${i}`,
  disabled: true,
  sink: { webhook: { url: "https://api.example.com" } },
  source: { postgres: { connection, replication_type: { logical_replication: {} } } },
});

test("a thousand are listed in a tenth of a second, and changed while a hundred read", async () => {
  const directory = await mkdtemp(join(tmpdir(), "millrace-many-"));
  await using _directory = { [Symbol.asyncDispose]: () => rm(directory, { recursive: true, force: true }) };
  await using service = await ServiceProcess.start({
    command: [await compiledBinary()],
    environment: {},
    dataDirectory: join(directory, "data"),
    workingDirectory: directory,
  });
  const call = async (method: string, path: string, body?: object) => {
    const headers = { "content-type": "application/json" };
    const request = { method, headers, ...(body ? { body: JSON.stringify(body) } : {}) };
    const response = await fetch(`${service.url}/api/v1/${path}`, request);
    return { status: response.status, text: await response.text() };
  };
  await inParallel(20, count, async (i) => {
    expect((await call("POST", `connectors/c${i}`, connector(i))).status).toBe(201);
  });

  const times: number[] = [];
  for (let i = 0; i < 9; i++) {
    const begunAt = performance.now();
    const { status, text } = await call("GET", "connectors");
    times.push(performance.now() - begunAt);
    expect(status).toBe(200);
    expect(JSON.parse(text).connectors).toHaveLength(count);
  }
  // What else runs on the machine makes some of them slower.
  expect(Math.min(...times)).toBeLessThan(listMs);

  let isWriting = true;
  const statuses = new Map<number, number>();
  const counted = ({ status }: { readonly status: number }) =>
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
  const read = async (i: number) => {
    for (let n = i; isWriting; n += 7) counted(await call("GET", `connectors/c${n % count}`));
  };
  const readers = Array.from({ length: 100 }, (_, i) => read(i));
  await inParallel(10, 300, async (i) => {
    counted(await call("PATCH", `connectors/c${i % 50}`, { name: `n${i}` }));
  });
  isWriting = false;
  await Promise.all(readers);
  expect([...statuses.keys()]).toEqual([200]);
  expect(statuses.get(200)).toBeGreaterThan(400);
  expect(JSON.parse((await call("GET", "connectors/c49")).text).connector.name).toMatch(/^n\d*49$|^n\d*99$/);
});

/** Calls `work` with 0 … `total` - 1, so many at once. */
async function inParallel(width: number, total: number, work: (i: number) => Promise<void>): Promise<void> {
  let next = 0;
  const one = async () => {
    while (next < total) await work(next++);
  };
  await Promise.all(Array.from({ length: width }, one));
}
