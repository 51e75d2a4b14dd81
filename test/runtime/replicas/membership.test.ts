// This process among the replicas: what it stores and looks for when something changes.

import { expect, test } from "bun:test";
import { Membership } from "../../../src/runtime/replicas/membership.ts";
import type { Notice } from "../../../src/state/notices.ts";
import type { LeaseStore, ReplicaSelf } from "../../../src/state/stores/lease-store.ts";
import { waitFor } from "../../support/wait-for.ts";

const self: ReplicaSelf = {
  id: "a",
  instance: "instance of a",
  host: "h",
  version: "1.0.0",
  weight: 1,
  leaseMs: 300_000,
  startedAt: new Date(0),
};

function membership(store: Partial<LeaseStore>) {
  let tell: (notice: Notice) => void = () => {};
  const member = new Membership({
    store: store as LeaseStore,
    notices: {
      listen: (heard) => {
        tell = heard;
        return () => {};
      },
    },
    self,
    log: { warn: () => {}, info: () => {}, error: () => {} } as never,
    trouble: () => null,
    replicaLost: () => {},
    saw: () => {},
    gained: () => {},
    lost: () => {},
    giveBack: async () => {},
    noticed: () => {},
  });
  return { member, tell: (notice: Notice) => tell(notice) };
}

test("whether a connector is to run is stored one time after the other, and the latest one last", async () => {
  const stored: boolean[] = [];
  const waiting: (() => void)[] = [];
  const { member } = membership({
    setActive: async (_id, _term, isActive) => {
      await new Promise<void>((resolve) => waiting.push(resolve));
      stored.push(isActive);
    },
  });
  for (const isActive of [true, false, true, false]) member.activityChanged("orders", 1, isActive);
  // What was told while the first one was under way is stored by one more.
  while (stored.length < 2) {
    await waitFor("a statement", () => waiting.length > 0);
    expect(waiting.length).toBe(1);
    waiting.shift()!();
    await Bun.sleep(0);
  }
  expect(stored).toEqual([true, false]);
  expect(waiting).toEqual([]);
});

test("a connector that somebody has made is looked for at once", async () => {
  let looks = 0;
  const { member, tell } = membership({
    join: async () => {},
    renew: async () => new Map(),
    view: async () => {
      looks++;
      const seen = { seenAt: new Date(0), isAlive: true, held: 0, active: 0, trouble: null };
      return { replicas: [{ ...self, ...seen }], free: [], nextEndMs: null };
    },
    leave: async () => {},
  });
  await member.start();
  let before = -1;
  await waitFor("the first looks to be over", async () => {
    before = looks;
    await Bun.sleep(300);
    return looks > 0 && looks === before;
  });
  tell({ what: "connector", connector: "new" });
  await waitFor("another look", () => looks > before);
  await member[Symbol.asyncDispose]();
});
