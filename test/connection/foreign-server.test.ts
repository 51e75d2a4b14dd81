import { afterEach, describe, expect, test } from "bun:test";
import { createServer, type Server } from "node:net";
import { connectPostgres } from "../../src/connection/postgres-client.ts";
import { MillraceError } from "../../src/errors/millrace-error.ts";

let server: Server;
afterEach(() => {
  server.close();
});

/** Connects to a server that sends `first` to each peer, or `answer` to what a peer sends. Returns the error's code and text. */
async function failureAt({ first, answer }: { first?: Buffer; answer?: Buffer }): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<void>();
  server = createServer((socket) => {
    socket.on("error", () => {});
    if (first) socket.write(first);
    socket.on("data", () => answer && socket.write(answer));
  }).listen(0, "127.0.0.1", resolve);
  await promise;
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the server has no port");
  const connection = {
    host: "127.0.0.1",
    port: address.port,
    user: "reader",
    password: "secret",
    database: "shop",
    ssl_mode: first ? ("Prefer" as const) : ("Disable" as const),
    max_pool_size: 0,
    operation_lock_timeout_seconds: 0,
  };
  const error = await connectPostgres(connection, "catalog", AbortSignal.timeout(5_000), "source").then(
    () => null,
    (error: unknown) => error,
  );
  if (!(error instanceof MillraceError)) throw new Error("no failure that is described", { cause: error });
  return `${error.code}: ${error.message}`;
}

/** https://www.postgresql.org/docs/current/protocol-message-formats.html AuthenticationGSS and its like. */
function authentication(kind: number): Buffer {
  const message = Buffer.from("R\0\0\0\x08\0\0\0\0", "latin1");
  message.writeInt32BE(kind, 5);
  return message;
}

describe("a server that", () => {
  test.each([
    [2, "Kerberos of version 5"],
    [7, "GSSAPI"],
    [9, "SSPI"],
  ])("asks for authentication %i, %s, is told from one that refuses a password", async (kind) => {
    expect(await failureAt({ answer: authentication(kind) })).toBe(
      "source_authentication_failed: The server asks for Kerberos (GSSAPI or SSPI), which millrace does not speak. " +
        "Give its role a line of its own in pg_hba.conf, before that one: host <database> <role> <address> scram-sha-256",
    );
  });

  const notPostgres =
    "source_unreachable: What answers there does not speak Postgres' protocol: check host and port.";

  test("greets as MySQL does is not Postgres", async () => {
    expect(await failureAt({ first: Buffer.from("J\0\0\0\n8.0.36\0", "latin1") })).toBe(notPostgres);
  });

  test.each([
    ["an authentication that no version knows", Buffer.from("R\0\0\0\n5.5.5-10.11", "latin1")],
    ["a message that ends too soon", Buffer.from("T\0\0\0\x06\x7f\xff", "latin1")],
    ["a message of no kind", Buffer.from("?\0\0\0\x04", "latin1")],
  ])("sends %s is not Postgres", async (_what, answer) => {
    expect(await failureAt({ answer })).toBe(notPostgres);
  });
});
