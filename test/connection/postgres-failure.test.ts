import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { connectPostgres } from "../../src/connection/postgres-client.ts";
import { describePostgresError, isTlsRefusal, sqlStateOf } from "../../src/connection/postgres-failure.ts";
import { MillraceError } from "../../src/errors/millrace-error.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";

let server: PostgresServer;

beforeAll(async () => {
  server = await PostgresServer.start();
  await server.query(
    `create table item (id int primary key, name varchar(3) not null);
     insert into item values (1, 'one');
     create role weak login`,
  );
});
afterAll(() => server[Symbol.asyncDispose]());

/** The error that the server throws for a statement. */
async function failureOf(sql: string, before = "select 1"): Promise<unknown> {
  await using client = await server.connect();
  await client.query(before);
  return await client.query(sql).then(
    () => null,
    (error: unknown) => error,
  );
}

describe("errors of the server", () => {
  test.each([
    ["select * from nowhere", "table_unavailable", "sink_schema_mismatch"],
    ["select nothing from item", "internal", "sink_schema_mismatch"],
    ["insert into item values (1, 'two')", "internal", "sink_rejected_rows"],
    ["insert into item values (2, 'secret value')", "internal", "sink_rejected_rows"],
    ["insert into item values (2, null)", "internal", "sink_rejected_rows"],
    ["select 'secret value'::int", "internal", "sink_rejected_rows"],
  ])("%s", async (sql, atSource, atSink) => {
    const error = await failureOf(sql);
    const [source, sink] = [describePostgresError(error, "source"), describePostgresError(error, "sink")];
    expect([source.code as string, sink.code as string]).toEqual([atSource, atSink]);
    for (const described of [source, sink]) expect(described.message).not.toContain("secret value");
    expect(sqlStateOf(source)).toBe(sqlStateOf(error));
  });

  test("the message names a constraint and its table, and not the value", async () => {
    const error = describePostgresError(await failureOf("insert into item values (1, 'two')"), "sink");
    expect(error.message).toBe(
      "The server refused a value that is there already: constraint item_pkey, table public.item (SQLSTATE 23505).",
    );
  });

  test("what a trigger raises names its function, and not what it says", async () => {
    const refuse =
      "create function pg_temp.refuse(text, int) returns int language plpgsql as $$ begin raise exception 'secret %', $1; end $$";
    const error = describePostgresError(
      await failureOf("select pg_temp.refuse('secret', 1)", refuse),
      "sink",
    );
    expect(error.message).toMatch(
      /^The server refused a value in a trigger or a function: function pg_temp\S*refuse\(text,integer\) \(SQLSTATE P0001\)\.$/,
    );
  });

  test("a read-only sink is reported as missing privileges, with a remedy", async () => {
    const failure = await failureOf(
      "insert into item values (3, 'new')",
      "set default_transaction_read_only = on",
    );
    const error = describePostgresError(failure, "sink", "sink_rejected_rows");
    expect(error.code).toBe("sink_permission_denied");
    expect(error.message).toContain("ALTER ROLE … RESET default_transaction_read_only");
  });

  test("a row that fits no partition is not reported as a violated check constraint", async () => {
    const parts = "create temporary table parted (id int) partition by range (id)";
    const error = describePostgresError(await failureOf("insert into parted values (1)", parts), "sink");
    expect(error.message).toMatch(
      /^The server refused a value that no partition takes: table .*parted \(SQLSTATE 23514\)\.$/,
    );
  });

  test("a reached connection limit is reported", async () => {
    await server.query("create role crowd login connection limit 0");
    const connection = {
      ...server.connection(),
      user: "crowd",
      ssl_mode: "Disable" as const,
      max_pool_size: 0,
    };
    const failing = connectPostgres(
      { ...connection, operation_lock_timeout_seconds: 0 },
      "apply",
      AbortSignal.timeout(20_000),
      "sink",
    );
    await expect(failing).rejects.toMatchObject({
      code: "sink_connection_lost",
      message: 'The server has no connection free: too many connections for role "crowd" (SQLSTATE 53300).',
    });
  });

  test.each([
    ["source", "source_connection_lost"],
    ["sink", "sink_rejected_rows"],
  ] as const)("a full lock table of the %s is reported with the setting to raise", async (side, code) => {
    const locks = "select count(pg_advisory_xact_lock(i)) from generate_series(1, 1000000) i";
    const error = describePostgresError(await failureOf(locks), side);
    expect(error).toMatchObject({ code, retry: "transient" });
    expect(error.message).toBe(
      "The server has no room for more locks. Raise max_locks_per_transaction: " +
        "ALTER SYSTEM SET max_locks_per_transaction = …; and restart the server (SQLSTATE 53200).",
    );
  });

  test("a missing privilege is reported in the server's words", async () => {
    const error = describePostgresError(await failureOf("select * from item", "set role weak"), "source");
    expect(error).toMatchObject({ code: "source_permission_denied", retry: "permanent" });
    expect(error.message).toContain("permission denied for table item");
  });

  test("statement and lock timeouts are transient", async () => {
    const slow = await failureOf("select pg_sleep(10)", "set statement_timeout = 20");
    expect(describePostgresError(slow, "source")).toMatchObject({
      code: "source_timeout",
      retry: "transient",
    });
    await using holder = await server.connect();
    await holder.query("begin; lock table item");
    const locked = await failureOf("lock table item", "set lock_timeout = 20; begin");
    expect(describePostgresError(locked, "source")).toMatchObject({
      code: "source_timeout",
      retry: "transient",
    });
  });

  test.each(["000000D9-00000002-1", "nonsense"])("a lost exported snapshot: %s", async (name) => {
    const error = await failureOf(
      `set transaction snapshot '${name}'`,
      "begin transaction isolation level repeatable read",
    );
    expect(describePostgresError(error, "source", "table_unavailable")).toMatchObject({
      code: "source_connection_lost",
      retry: "transient",
    });
  });

  test("a connection that the server ends is a transient error", async () => {
    await using client = await server.connect();
    const { rows } = await client.query<{ pid: number }>("select pg_backend_pid() as pid");
    const outcome = client.query("select pg_sleep(10)").then(
      () => null,
      (error: unknown) => error,
    );
    await server.query(`select pg_terminate_backend(${rows[0]?.pid})`);
    expect(describePostgresError(await outcome, "sink")).toMatchObject({
      code: "sink_connection_lost",
      retry: "transient",
    });
  });
});

test("our own errors pass unchanged; an unknown one keeps its cause", () => {
  const ours = new MillraceError("slot_missing", "gone");
  expect(describePostgresError(ours, "source")).toBe(ours);
  const foreign = new TypeError("x is not a function");
  expect(describePostgresError(foreign, "source")).toMatchObject({ code: "internal", cause: foreign });
});

test.each([
  ["source", "protocol_violation"],
  ["sink", "sink_connection_lost"],
] as const)("at the %s, a pooler's refusal is told from the server's own", async (side, ofServer) => {
  // PgBouncer sends no place in Postgres' source code.
  const refusal = Object.assign(new Error("no more connections allowed (max_client_conn)"), {
    code: "08P01",
  });
  expect(describePostgresError(refusal, side)).toMatchObject({
    code: `${side}_connection_lost`,
    retry: "transient",
    message:
      "A connection pooler answers: no more connections allowed (max_client_conn) (SQLSTATE 08P01). " +
      "Connect to the server itself, not to a pooler.",
  });
  await using client = await server.connect();
  const violation = await client.query("select $1::int, $2::int", [1]).catch((error: unknown) => error);
  expect(describePostgresError(violation, side)).toMatchObject({
    code: ofServer,
    message: expect.stringMatching(
      /^The server says: bind message supplies 1 parameters.* \(SQLSTATE 08P01\)\.$/,
    ),
  });
});

test.each(["source", "sink"] as const)("a %s before Postgres 14 is told to be too old", (side) => {
  // What 13 answers to the login; 17 knows the setting.
  const message = 'unrecognized configuration parameter "idle_session_timeout"';
  expect(describePostgresError(Object.assign(new Error(message), { code: "42704" }), side)).toMatchObject({
    code: `${side}_unreachable`,
    message: "Postgres 14 or newer is needed: this server does not know idle_session_timeout.",
  });
});

test("Prefer falls back to a plain connection only after a failure of TLS itself", () => {
  const error = (code: string, message: string) => Object.assign(new Error(message), { code });
  expect(isTlsRefusal(new Error("The server does not support SSL connections"))).toBe(true);
  expect(isTlsRefusal(error("DEPTH_ZERO_SELF_SIGNED_CERT", "self-signed certificate"))).toBe(true);
  const noEntry = 'no pg_hba.conf entry for host "10.0.0.1", user "u", database "d", SSL encryption';
  expect(isTlsRefusal(error("28000", noEntry))).toBe(true);
  expect(isTlsRefusal(error("28P01", 'password authentication failed for user "tls_sync"'))).toBe(false);
  expect(isTlsRefusal(error("53300", 'too many connections for role "ssl_app"'))).toBe(false);
  expect(isTlsRefusal(error("ECONNREFUSED", "connect ECONNREFUSED"))).toBe(false);
});
