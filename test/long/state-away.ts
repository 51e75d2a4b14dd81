// The database of the state goes away for a while, whatever it is that has taken it: a Postgres sink goes on, a webhook as soon as
// it is back, and the service says meanwhile what is missing.

import { expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DemoStage } from "../../src/demo/demo-stage.ts";
import { loadInBackground } from "../support/loads/load-in-background.ts";
import { expectEqualSinks } from "../support/oracles/equal-sinks.ts";
import { compiledBinary } from "../support/program/compiled-binary.ts";
import { SmallDisk } from "../support/program/small-disk.ts";
import { untilStreaming } from "../support/program/until-streaming.ts";
import { freeze, letGoOn } from "../support/servers/frozen-server.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";

setDefaultTimeout(180_000);

const awayMs = 12_000;

interface Outage {
  readonly name: string;
  readonly begin: (server: PostgresServer) => Promise<unknown>;
  readonly end: (server: PostgresServer) => Promise<unknown>;
}

const outages: readonly Outage[] = [
  { name: "stopped", begin: (server) => server.stop("fast"), end: (server) => server.launch() },
  {
    name: "frozen",
    begin: freeze,
    end: letGoOn,
  },
];

const stageOptions = async () => {
  const command = [await compiledBinary()];
  return { scale: 0.05, signal: AbortSignal.timeout(60_000), announce: () => {}, command };
};

async function serviceOver(state: PostgresServer): Promise<DemoStage> {
  return await DemoStage.setUp({
    ...(await stageOptions()),
    environment: {
      DATABASE_URL: `postgres://postgres@127.0.0.1:${state.port}/postgres`,
      MILLRACE_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString("base64"),
    },
  });
}

/** A row that is written now comes to the Postgres sink, which keeps its own checkpoint. Returns the milliseconds that it took. */
async function passRow(stage: DemoStage, name: string): Promise<number> {
  await using source = await stage.connectToSource();
  await using sink = await stage.connectToSink();
  const from = performance.now();
  await source.query("insert into customers (email, name) values ('row', $1)", [name]);
  await waitFor("the row at the Postgres sink", async () => {
    const { rowCount } = await sink.query("select from customers where name = $1", [name]);
    return rowCount === 1;
  });
  return performance.now() - from;
}

async function changeUnselected(stage: DemoStage, name: string): Promise<void> {
  await using source = await stage.connectToSource();
  await source.query(`create schema "${name}"; create table "${name}".aside (id int primary key)`);
}

const isDelivered = (stage: DemoStage, name: string) =>
  [...stage.receiver.deliveries.values()].some(({ body }) => body.includes(name));

const readiness = (stage: DemoStage) =>
  fetch(`${stage.service.url}/readyz`, { signal: AbortSignal.timeout(10_000) });

async function expectGoingOn(
  stage: DemoStage,
  begin: () => Promise<unknown>,
  end: () => Promise<unknown>,
  whileAway: () => Promise<void>,
) {
  await stage.createConnectors();
  await untilStreaming(stage);
  {
    await using load = await loadInBackground(stage, 20);
    await passRow(stage, "before");
    await begin();
    try {
      for (const name of ["while one", "while two", "while three"]) {
        // What is published stays as it is: the stream does not need the state for a table that is not selected.
        await changeUnselected(stage, name);
        expect(await passRow(stage, name)).toBeLessThan(5_000);
        await Bun.sleep(awayMs / 3);
      }
      await whileAway();
    } finally {
      await end();
    }
    await waitFor("readiness", async () => (await readiness(stage)).status === 200);
    expect(await passRow(stage, "behind")).toBeLessThan(5_000);
    // A request whose end time has decided is sent once that is kept, or it would come again as another one.
    await waitFor(
      "the rows at the receiver",
      () => isDelivered(stage, "while three") && isDelivered(stage, "behind"),
      {
        timeoutMs: 10_000,
      },
    );
    expect(load.transactions).toBeGreaterThan(50);
  }
  await expectEqualSinks(stage);
  const requests = stage.receiver.deliveries.size;
  // What was kept is where it stood: nothing is sent anew.
  await stage.service.stop();
  await stage.service.launch();
  await untilStreaming(stage);
  await passRow(stage, "again");
  await expectEqualSinks(stage);
  expect(stage.receiver.deliveries.size).toBeLessThanOrEqual(requests + 2);
}

test.each(outages)("a server that is $name", async ({ begin, end }) => {
  await using state = await PostgresServer.start();
  await using stage = await serviceOver(state);
  await expectGoingOn(
    stage,
    () => begin(state),
    () => end(state),
    async () => {
      const answer = await readiness(stage);
      expect(answer.status).toBe(503);
      expect(await answer.text()).toContain("state");
      // Who watches gives a scrape up after 10 s.
      const metrics = await fetch(`${stage.service.url}/metrics`, { signal: AbortSignal.timeout(5_000) });
      expect(await metrics.text()).toContain("millrace_rows_durable_total");
    },
  );
});

if (SmallDisk.mayBeMade()) {
  test("a data directory whose disk is full", async () => {
    const directory = await mkdtemp(join(tmpdir(), "millrace-state-disk-"));
    await using _directory = { [Symbol.asyncDispose]: () => rm(directory, { recursive: true }) };
    await using disk = await SmallDisk.at(directory, 200);
    await using stage = await DemoStage.setUp({
      ...(await stageOptions()),
      dataDirectory: join(directory, "data"),
    });
    await expectGoingOn(
      stage,
      () => disk.fill(),
      () => disk.makeRoom(),
      // What it writes goes where it has written before: nothing has to wait.
      async () => {
        await waitFor("the rows at the receiver", () => isDelivered(stage, "while three"));
      },
    );
  });
}
