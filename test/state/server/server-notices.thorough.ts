// What other replicas change is heard; what was told while the session was away is named as missed.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { newTask } from "../../../src/connector/task-state.ts";
import type { Notice } from "../../../src/state/notices.ts";
import { openState, type State } from "../../../src/state/open-state.ts";
import { readNotice } from "../../../src/state/server/server-notices.ts";
import { storedConnector } from "../../support/api/sample-connector.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { TcpProxy } from "../../support/servers/tcp-proxy.ts";
import { waitFor } from "../../support/wait-for.ts";

let server: PostgresServer;
let directory: string;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
  directory = await mkdtemp(join(tmpdir(), "millrace-notices-"));
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
});

function open(port = server.port): Promise<State> {
  return openState({
    databaseUrl: `postgres://postgres@127.0.0.1:${port}/postgres`,
    dataDirectory: directory,
    encryptionKey: Buffer.alloc(32, 7).toString("base64"),
    instance: crypto.randomUUID(),
  });
}

function heard(state: State): { readonly notices: Notice[]; end(): void } {
  const notices: Notice[] = [];
  return { notices, end: state.shared!.notices.listen((notice) => notices.push(notice)) };
}

const self = (state: State) => ({
  id: state.shared!.instance,
  instance: state.shared!.instance,
  host: "a",
  version: "1",
  weight: 1,
  leaseMs: 60_000,
  startedAt: new Date(),
});

test("a replica hears of others' connectors, tasks and leases, and nothing of its own", async () => {
  await using one = await open();
  await using other = await open();
  const [own, others] = [heard(one), heard(other)];
  await one.connectors.insert(storedConnector("shop"));
  await one.connectors.update("shop", { stopped: true });
  const snapshot = { database: "shop", schema: "public", name: "t", truncate: false, force_parallel: false };
  const task = await one.tasks.create("shop", newTask(Bun.randomUUIDv7(), { Snapshot: snapshot }, 0));
  const { leases } = one.shared!;
  await leases.join(self(one));
  const term = (await leases.take(self(one), ["shop"])).get("shop")!;
  await leases.renew(self(one), null);
  await leases.setActive("shop", term, false);
  await one.sinkRecords.save("shop", "silent", new Map(), term);
  await leases.release(self(one), new Map([["shop", term]]));
  await one.connectors.remove("shop", term);
  const connector = { what: "connector", connector: "shop" };
  const lease = { what: "lease", connector: "shop" };
  const expected = [
    ...[connector, connector, { what: "task", connector: "shop", task: task.id }],
    ...[lease, lease, connector],
  ];
  await waitFor("all is heard", () => others.notices.length >= expected.length);
  expect(others.notices).toEqual(expected as Notice[]);
  expect(own.notices).toEqual([]);
  others.end();
  await one.connectors.insert(storedConnector("later"));
  await other.connectors.insert(storedConnector("another"));
  await waitFor("it still listens", () => own.notices.length === 1);
  expect(others.notices).toEqual(expected as Notice[]);
});

test("a session that was dropped is opened at once, and says that notices may have been missed", async () => {
  await using one = await open();
  await using other = await open();
  const { notices } = heard(other);
  const begunAt = performance.now();
  await server.query(
    `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'millrace notices ${other.shared!.instance}'`,
  );
  await waitFor("it listens again", () => notices.length > 0);
  expect(performance.now() - begunAt).toBeLessThan(1_500);
  expect(notices).toEqual([{ what: "missed" }]);
  await one.connectors.insert(storedConnector("heard"));
  await waitFor("it hears again", () => notices.length === 2);
});

test("a session that falls silent is opened anew, and a server that is away for long is tried again", async () => {
  await using proxy = await TcpProxy.start(server.port);
  await using one = await open();
  await using other = await open(proxy.port);
  const { notices } = heard(other);
  proxy.strand();
  await one.connectors.insert(storedConnector("unheard"));
  await waitFor("it listens again", () => notices.length > 0);
  expect(notices).toEqual([{ what: "missed" }]);
  proxy.refuse(true);
  proxy.cut();
  await Bun.sleep(3_000);
  proxy.refuse(false);
  await waitFor("it listens again", () => notices.length > 1);
  await one.connectors.insert(storedConnector("heard-again"));
  await waitFor("it hears again", () =>
    notices.some((notice) => notice.what === "connector" && notice.connector === "heard-again"),
  );
});

test("a transaction whose client is gone does not keep a lease for long", async () => {
  await using one = await open();
  await one.connectors.insert(storedConnector("kept"));
  await one.shared!.leases.join(self(one));
  const taken = await one.shared!.leases.take(self(one), ["kept"]);
  const term = taken.get("kept")!;
  await using proxy = await TcpProxy.start(server.port);
  await using gone = await open(proxy.port);
  // The network dies when the transaction has the lease, and waits for what comes next.
  proxy.stallAt('from "millrace"."tasks"');
  const change = gone.tasks.change("kept", "no-task", () => null, term).catch((error: unknown) => error);
  await waitFor("the lease is locked", async () => {
    const rows = await server.query(
      "select from pg_stat_activity where state = 'idle in transaction' and query like '%for key share'",
    );
    return rows.length > 0;
  });
  const begunAt = performance.now();
  await one.shared!.leases.release(self(one), taken);
  expect(await one.shared!.leases.take(self(one), ["kept"])).toEqual(new Map());
  await waitFor("it is free", async () => (await one.shared!.leases.take(self(one), ["kept"])).size === 1);
  expect(performance.now() - begunAt).toBeWithin(1_000, 8_000);
  proxy.cut();
  expect(await change).toMatchObject({ code: "state_unavailable" });
});

test("a renewal does not wait for what else is asked of the state", async () => {
  await using state = await open();
  const { leases } = state.shared!;
  await leases.join(self(state));
  await using other = await server.connect();
  await other.query("begin; lock table millrace.connectors in access exclusive mode");
  const waiting = Array.from({ length: 20 }, () => state.connectors.list());
  await leases.renew(self(state), null);
  await other.query("rollback");
  await Promise.all(waiting);
  await leases.leave(self(state));
});

test("a notice of a kind that a later build knows is left alone", () => {
  const text = (notice: object) => JSON.stringify({ by: "other", connector: "c", ...notice });
  expect(readNotice(text({ what: "lease" }), "own")).toEqual({ what: "lease", connector: "c" });
  expect(readNotice(text({ what: "lease", by: "own" }), "own")).toBeNull();
  for (const other of [text({ what: "weather" }), text({ what: "task" }), "{", "null", '"text"', "[]"])
    expect(readNotice(other, "own")).toBeNull();
});

test("a replica that may open no other session is told that it hears nothing, until it hears again", async () => {
  await using proxy = await TcpProxy.start(server.port);
  await using other = await open(proxy.port);
  const { notices } = heard(other);
  // Those that are open live on.
  await other.ping();
  proxy.refuse(true);
  await server.query(
    `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'millrace notices ${other.shared!.instance}'`,
  );
  await waitFor("it to be told", () => notices.length > 0);
  expect(notices).toEqual([{ what: "missed", error: expect.any(Error) }]);
  await other.ping();
  proxy.refuse(false);
  await waitFor("it listens again", () => notices.length > 1);
  expect(notices[1]).toEqual({ what: "missed" });
});
