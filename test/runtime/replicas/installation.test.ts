// What is asked of the installation as the keeper has seen it last.

import { expect, test } from "bun:test";
import { Installation } from "../../../src/runtime/replicas/installation.ts";
import type { InstallationView, ReplicaView } from "../../../src/state/stores/lease-store.ts";

const replica = (id: string, change: Partial<ReplicaView> = {}): ReplicaView => ({
  id,
  instance: `instance of ${id}`,
  host: "h",
  version: "1.0.0",
  weight: 1,
  startedAt: new Date(0),
  seenAt: new Date(0),
  isAlive: true,
  held: 0,
  active: 0,
  trouble: null,
  ...change,
});

test("a replica is found by its instance while it lives", () => {
  const view = { replicas: [replica("a"), replica("b", { isAlive: false })], free: [], nextEndMs: null };
  const installation = new Installation(() => view);
  expect(installation.replicaOf("instance of a")).toBe("a");
  expect(installation.replicaOf("instance of b")).toBeNull();
  expect(installation.replicaOf("another")).toBeNull();
});

test("a connector is left alone when it is to run and was free for longer than a take-over takes", () => {
  const free = [
    { connectorId: "moving", active: true, freeMs: 300 },
    { connectorId: "alone", active: true, freeMs: 2_500 },
    { connectorId: "stopped", active: false, freeMs: 90_000 },
  ];
  let view: InstallationView | null = { replicas: [], free, nextEndMs: null };
  const installation = new Installation(() => view);
  const alone = () => ["moving", "alone", "stopped", "held"].filter((id) => installation.isLeftAlone(id));
  expect(alone()).toEqual(["alone"]);
  expect([...installation.leftAlone]).toEqual(["alone"]);
  view = { replicas: [], free: [], nextEndMs: null };
  expect(alone()).toEqual([]);
  view = null;
  expect(alone()).toEqual([]);
});

test("until the installation was looked at, there may be other replicas", () => {
  let view: InstallationView | null = null;
  const installation = new Installation(() => view);
  expect(installation.hasOthers("instance of a")).toBe(true);
  view = { replicas: [replica("a")], free: [], nextEndMs: null };
  expect(installation.hasOthers("instance of a")).toBe(false);
  view = { replicas: [replica("a"), replica("b", { isAlive: false })], free: [], nextEndMs: null };
  expect(installation.hasOthers("instance of a")).toBe(true);
});
