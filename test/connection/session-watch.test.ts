import { expect, test } from "bun:test";
import { type AddressInfo, connect, createServer } from "node:net";
import { withPostgres } from "../../src/connection/postgres-client.ts";
import { whileWatched } from "../../src/connection/session-watch.ts";
import { PostgresServer } from "../../src/demo/postgres-server.ts";
import { fullConnection } from "../support/connector-config.ts";
import { PipelineRig, type RigOptions } from "../support/pipeline-rig.ts";
import { TcpProxy } from "../support/tcp-proxy.ts";

test("a sink that falls silent in the middle of a write is given up, and gone on with when it is back", async () => {
  await using server = await PostgresServer.start({ settings: { fsync: "off" } });
  await using proxy = await TcpProxy.start(server.port);
  const options: RigOptions = {
    sink: { connection: fullConnection({ ...server.connection("silent_sink"), port: proxy.port }) },
  };
  await using pair = await PipelineRig.create(server, "silent", options);
  await pair.source("create table t (id int primary key)");
  pair.start();
  await pair.untilRealtime();
  await pair.source("insert into t values (1)");
  await pair.expectEqual();
  proxy.stall();
  await pair.source("insert into t values (2)");
  expect(await pair.ended()).toMatchObject({ code: "sink_connection_lost", retry: "transient" });
  proxy.resume();
  pair.start();
  await pair.expectEqual();
  await pair.stop();
}, 90_000);

test("behind a pooler, which gives numbers of its own, nobody is given up", async () => {
  await using server = await PostgresServer.start({ settings: { fsync: "off" } });
  await using pooler = await numberingProxy(server.port);
  const connection = fullConnection({ ...server.connection(), port: pooler.port }, { ssl_mode: "Disable" });
  const signal = AbortSignal.timeout(30_000);
  const answer = await withPostgres(connection, "control", signal, "sink", (client) =>
    whileWatched({ connection, side: "sink", client, signal, firstLookMs: 0 }, () =>
      client.query("select pg_sleep(1), 'done' as said"),
    ),
  );
  expect(answer.rows[0].said).toBe("done");
}, 60_000);

/** Forwards, and puts another number in the place of each backend's process id. */
async function numberingProxy(to: number): Promise<{ port: number } & AsyncDisposable> {
  const keyData = Buffer.from([0x4b, 0, 0, 0, 12]);
  const proxy = createServer((client) => {
    const upstream = connect(to, "127.0.0.1");
    client.pipe(upstream);
    upstream.on("data", (chunk: Buffer) => {
      const at = chunk.indexOf(keyData);
      if (at >= 0) chunk.writeInt32BE(0x7fff_0000, at + keyData.length);
      client.write(chunk);
    });
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      one.on("error", () => {});
      one.on("close", () => other.destroy());
    }
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  return {
    port: (proxy.address() as AddressInfo).port,
    [Symbol.asyncDispose]: async () => {
      await new Promise((resolve) => proxy.close(resolve));
    },
  };
}
