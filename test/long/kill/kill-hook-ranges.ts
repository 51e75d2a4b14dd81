// `bun run test:long`: a large table's copy to a webhook goes on where it was when the service was killed: what was delivered and noted is not sent again.

import { expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ApiClient } from "../../../src/demo/api-client.ts";
import { ServiceProcess } from "../../../src/demo/service-process.ts";
import { compiledBinary } from "../../support/program/compiled-binary.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

// Starting servers takes its time on a busy machine.
setDefaultTimeout(180_000);

const rows = 10_000;
/** 250 MB, most of it out of line: four ranges. */
const table = `
  create table m (id int primary key, n int not null, far text not null);
  alter table m alter far set storage external;
  insert into m select g, 0, repeat(chr(97 + g % 26), 24000) from generate_series(1, ${rows}) g`;

interface Row {
  readonly id: number;
  readonly n: number;
  readonly far?: string;
  readonly _sm_deleted: boolean;
}

/** What a receiver holds that takes rows as they come, and how many came. */
function receive() {
  const held = new Map<number, string>();
  const count = { rows: 0 };
  const seen = new Set<string>();
  const server = Bun.serve({
    port: 0,
    fetch: async (request) => {
      const body = (await request.json()) as Row[];
      count.rows += body.length;
      const key = request.headers.get("idempotency-key") ?? "";
      if (seen.has(key)) return new Response();
      seen.add(key);
      for (const { id, n, far, _sm_deleted: isDeleted } of body) {
        // The source left it out: it is as it was.
        const value = far ? `${far[0]}${far.length}` : held.get(id)?.split(" ")[1];
        if (isDeleted) held.delete(id);
        else held.set(id, `${n} ${value}`);
      }
      return new Response();
    },
  });
  return { held, count, url: server.url.href, [Symbol.asyncDispose]: () => server.stop(true) };
}

test("kill -9 at some tenths of a copy", async () => {
  await using stack = new AsyncDisposableStack();
  const [command, server] = await Promise.all([
    compiledBinary(),
    PostgresServer.start({ settings: { fsync: "off" } }),
  ]);
  stack.use(server);
  await server.createDatabase("a");
  await server.query(table, "a");
  const dataDirectory = await mkdtemp(join(tmpdir(), "millrace-hook-ranges-"));
  stack.defer(() => rm(dataDirectory, { recursive: true, force: true }));
  const receiver = stack.use(receive());
  const service = stack.use(await ServiceProcess.start({ command: [command], dataDirectory }));
  await new ApiClient(service.url).createConnector("m", {
    source: {
      postgres: {
        connection: server.connection("a"),
        replication_type: { logical_replication: {} },
        // One range after the other: a death costs one of them.
        parallel_snapshots_enabled: false,
      },
    },
    sink: { webhook: { url: receiver.url } },
  });
  for (const tenth of [3, 6]) {
    const isThere = () => receiver.held.size >= (rows * tenth) / 10;
    await waitFor(`${tenth} tenths`, isThere, { timeoutMs: 60_000, intervalMs: 5 });
    await service.kill();
    // Also rows that are there already, and some that move from one range to another.
    await server.query(`delete from m where id % 100 = ${tenth}`, "a");
    await server.query("vacuum m", "a");
    await server.query(`update m set n = ${tenth} where id % 50 = 0`, "a");
    await service.launch();
  }
  const wanted = await server.query<{ id: number; value: string }>(
    "select id, n || ' ' || left(far, 1) || length(far) as value from m",
    "a",
  );
  const isSame = () => Bun.deepEquals(new Map(wanted.map(({ id, value }) => [id, value])), receiver.held);
  await waitFor("the receiver to hold the source", isSame, { timeoutMs: 60_000, intervalMs: 100 }).catch(
    () => {},
  );
  expect(isSame()).toBe(true);
  // From the beginning after each death it would be 1.9 times the table. A range may come twice, and what moved.
  expect(receiver.count.rows).toBeLessThan(rows * 1.7);
});
