import { expect, test } from "bun:test";
import { PooledCopySessions } from "../../../../src/sink/postgres/copy/copy-sessions.ts";
import { postgresSink } from "../../../support/api/connector-config.ts";
import { PostgresServer } from "../../../support/servers/postgres-server.ts";
import { TcpProxy } from "../../../support/servers/tcp-proxy.ts";

test("a copy that is stopped while its session opens does not run", async () => {
  await using server = await PostgresServer.start({ settings: { fsync: "off" } });
  await using proxy = await TcpProxy.start(server.port);
  const config = postgresSink({ ...server.connection(), port: proxy.port });
  const connector = { connectorId: "copies", signal: AbortSignal.timeout(60_000) };
  await using sessions = new PooledCopySessions(config, connector);
  const stop = new AbortController();
  const reason = new Error("cancelled");
  let hasRun = false;
  // A login has the application's name in its first packet.
  const isOpening = proxy.holdAt("millrace copy");
  const ended = sessions
    .within(async () => {
      hasRun = true;
    }, stop.signal)
    .catch((error: unknown) => error);
  await isOpening;
  stop.abort(reason);
  proxy.resume();
  expect(await ended).toBe(reason);
  expect(hasRun).toBe(false);
});
