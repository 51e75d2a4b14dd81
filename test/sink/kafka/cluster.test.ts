import { expect, test } from "bun:test";
import { createServer, type Socket } from "node:net";
import { Cluster } from "../../../src/sink/kafka/client/cluster.ts";

/** A broker that resets each connection once it is asked something. Returns its port. */
async function resettingBroker(stack: AsyncDisposableStack): Promise<number> {
  const server = createServer((socket: Socket) => {
    socket.on("error", () => undefined);
    socket.once("data", () => socket.resetAndDestroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  stack.defer(() => void server.close());
  return (server.address() as { port: number }).port;
}

test.each([
  ["a SASL handshake", { mechanism: "PLAIN", username: "user", password: "secret" } as const],
  ["its first question", null],
])(
  "a connection that is reset amid %s is a failure of who asked, and no error that nobody catches",
  async (_, sasl) => {
    await using stack = new AsyncDisposableStack();
    const uncaught: unknown[] = [];
    const note = (error: unknown) => void uncaught.push(error);
    for (const event of ["uncaughtException", "unhandledRejection"]) {
      process.on(event, note);
      stack.defer(() => void process.off(event, note));
    }
    const cluster = new Cluster({
      brokers: [`127.0.0.1:${await resettingBroker(stack)}`],
      ...{ clientId: "test", tls: null, sasl },
      ...{ connectTimeoutMs: 2_000, requestTimeoutMs: 3_000, metadataAgeMs: 1_000 },
      monotonic: () => performance.now(),
    });
    stack.defer(() => cluster.close());
    await expect(cluster.topics([], true)).rejects.toMatchObject({ code: "sink_unreachable" });
    // Errors are also reported later, as events.
    await Bun.sleep(100);
    expect(uncaught).toEqual([]);
  },
);
