// What the service says of its replicas.

import { expect, test } from "bun:test";
import { LiveReportService } from "../../src/runtime/report-service.ts";
import type { StatusBoard } from "../../src/runtime/status/status-board.ts";
import { ThreadWatch } from "../../src/runtime/threads/thread-watch.ts";
import type { InstallationView, ReplicaView } from "../../src/state/stores/lease-store.ts";

const replica = (id: string, change: Partial<ReplicaView> = {}): ReplicaView => ({
  id,
  instance: `instance of ${id}`,
  host: `host-${id}`,
  version: "1.0.0",
  weight: 2,
  trouble: null,
  startedAt: new Date(0),
  seenAt: new Date(1_000),
  isAlive: true,
  held: 5,
  active: 3,
  ...change,
});

function serviceWith(view: InstallationView | null): LiveReportService {
  const phases = new Map([
    ["orders", { state: "realtime", health: "heartbeat" }],
    ["events", { state: "shutdown", health: "complete" }],
  ]);
  return new LiveReportService({
    board: { phases: () => phases } as unknown as StatusBoard,
    threads: new ThreadWatch(),
    version: "1.0.0",
    startedAt: new Date(0),
    stateKind: "Postgres",
    settings: [],
    replicaId: "b",
    host: "here",
    weight: 1,
    view: () => view,
    now: () => new Date(5_000),
    residentBytes: () => 1,
  });
}

test("a replica that knows of no other lists itself", () => {
  expect(serviceWith(null).replicas()).toEqual({
    replicas: [
      {
        id: "b",
        host: "here",
        version: "1.0.0",
        alive: true,
        weight: 1,
        connectors: 1,
        started_at: "1970-01-01T00:00:00.000Z",
        seen_at: "1970-01-01T00:00:05.000Z",
      },
    ],
    this: "b",
  });
});

test("all of an installation are listed by id, dead ones too, with what is to run and is theirs", () => {
  const dead = replica("a", { isAlive: false, active: 0 });
  const listed = serviceWith({ replicas: [replica("b"), dead], free: [], nextEndMs: null }).replicas();
  expect(listed.this).toBe("b");
  expect(listed.replicas).toMatchObject([
    { id: "a", alive: false, connectors: 0 },
    { id: "b", alive: true, weight: 2, host: "host-b", connectors: 3, seen_at: "1970-01-01T00:00:01.000Z" },
  ]);
});
