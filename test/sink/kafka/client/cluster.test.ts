import { expect, test } from "bun:test";
import { createServer, type Socket } from "node:net";
import { AuthenticationError, NetworkError, Writer } from "@platformatic/kafka";
import { AddressResolver } from "../../../../src/connection/egress.ts";
import { Cluster } from "../../../../src/sink/kafka/client/cluster.ts";
import { kafkaFailure } from "../../../../src/sink/kafka/client/kafka-error.ts";

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
      clientId: "test",
      tls: null,
      sasl,
      connectTimeoutMs: 2_000,
      requestTimeoutMs: 3_000,
      metadataAgeMs: 1_000,
      monotonic: () => performance.now(),
      resolver: new AddressResolver("default"),
    });
    stack.defer(() => cluster.close());
    await expect(cluster.topics([], true)).rejects.toMatchObject({ code: "sink_unreachable" });
    // Errors are also reported later, as events.
    await Bun.sleep(100);
    expect(uncaught).toEqual([]);
  },
);

test("a broker that says nothing amid a SASL handshake has not refused the password", async () => {
  await using stack = new AsyncDisposableStack();
  const sockets = new Set<Socket>();
  const server = createServer((socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
    socket.resume();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  stack.defer(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const cluster = new Cluster({
    brokers: [`127.0.0.1:${(server.address() as { port: number }).port}`],
    clientId: "test",
    tls: null,
    sasl: { mechanism: "PLAIN", username: "user", password: "secret" },
    connectTimeoutMs: 2_000,
    requestTimeoutMs: 100,
    metadataAgeMs: 1_000,
    monotonic: () => performance.now(),
    resolver: new AddressResolver("default"),
  });
  stack.defer(() => cluster.close());
  await expect(cluster.topics([], true)).rejects.toMatchObject({
    code: "sink_unreachable",
    retry: "transient",
  });
});

test.each([
  ["the client refuses what a broker says", {}, "sink_authentication_failed"],
  ["the connection is lost", { cause: new NetworkError("Connection closed") }, "sink_unreachable"],
])("amid authentication %s", (_, cause, code) => {
  const refused = new AuthenticationError("SASL authentication failed.", cause);
  // As a connection reports whatever ends it.
  const failed = new NetworkError("Connection to localhost:9092 failed.", { cause: refused });
  expect(kafkaFailure(failed, "connect")).toMatchObject({ code });
});

test("what a client or a broker says is told without what the state refuses", () => {
  const failed = new NetworkError(`no \u0000answer:\n${"x".repeat(286)}${"😀".repeat(9)}`);
  const { message } = kafkaFailure(failed, "connect");
  expect(message).toBe(
    `Kafka did not answer a request to connect: no answer: ${"x".repeat(286)}${"😀".repeat(2)}…`,
  );
});

/** A broker that tells of the cluster, and names another one as its controller and the leader of topic `led`. */
async function tellingBroker(stack: AsyncDisposableStack, host: string): Promise<number> {
  let own = 0;
  const server = createServer((socket: Socket) => {
    socket.on("error", () => undefined);
    socket.on("data", (request: Buffer) => {
      const brokers = [
        [1, "127.0.0.1", own],
        [2, host, 9092],
      ] as const;
      const answer = Writer.create()
        .appendInt32(0)
        .appendArray([...brokers], (w, [id, name, port]) => {
          w.appendInt32(id).appendString(name).appendInt32(port).appendString(null);
        })
        .appendString("cluster")
        .appendInt32(2)
        .appendArray(["led"], (topics, name) => {
          topics.appendInt16(0).appendString(name).appendBoolean(false);
          topics.appendArray([2], (partitions, leader) => {
            partitions.appendInt16(0).appendInt32(0).appendInt32(leader).appendInt32(0);
            partitions.appendArray([1, 2], (replicas, id) => replicas.appendInt32(id), true, false);
            for (let i = 0; i < 2; i++) partitions.appendArray([], () => undefined, true, false);
          });
          topics.appendInt32(0);
        })
        .appendInt32(0)
        .appendTaggedFields();
      const head = Buffer.alloc(9);
      head.writeInt32BE(answer.length + 5, 0);
      head.writeInt32BE(request.readInt32BE(8), 4);
      socket.write(Buffer.concat([head, answer.buffer]));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  stack.defer(() => void server.close());
  own = (server.address() as { port: number }).port;
  return own;
}

test.each([
  ["an address", "169.254.169.254"],
  ["a name that resolves to it", "broker-2.test"],
])("a broker that the cluster names is not connected to at a metadata service: by %s", async (_, host) => {
  await using stack = new AsyncDisposableStack();
  const cluster = new Cluster({
    brokers: [`broker-1.test:${await tellingBroker(stack, host)}`],
    clientId: "test",
    tls: null,
    sasl: null,
    connectTimeoutMs: 2_000,
    requestTimeoutMs: 3_000,
    metadataAgeMs: 1_000,
    monotonic: () => performance.now(),
    resolver: new AddressResolver("default", async (name) => [
      name === "broker-1.test" ? "127.0.0.1" : "169.254.169.254",
    ]),
  });
  stack.defer(() => cluster.close());
  expect((await cluster.topics(["led"], true)).get("led")).toMatchObject({ leaders: [2], replicas: 2 });
  expect(cluster.leader("led", 0)).toBe(2);
  const refused = {
    code: "kafka_rejected",
    message: expect.stringContaining("169.254.169.254 is link-local"),
  };
  await expect(cluster.node(2)).rejects.toMatchObject(refused);
  await expect(cluster.askController(async () => null)).rejects.toMatchObject(refused);
});
