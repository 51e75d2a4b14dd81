// Events on their way to clients: what resumes, what gives way, and what is bounded.

import { expect, test } from "bun:test";
import type { EventFollower, FollowedEvent } from "../../../src/api/services.ts";
import type { ServiceEvent } from "../../../src/connector/service/service-event.ts";
import type { MillraceError } from "../../../src/errors/millrace-error.ts";
import { EventHub } from "../../../src/runtime/events/event-hub.ts";

const changed = (connector_id: string): ServiceEvent => {
  return { event: "connector", data: { connector_id, change: "changed" } };
};

const status = (connector_id: string, reason: string): ServiceEvent => {
  const health = { retry: { attempt: 1, reason } };
  return {
    event: "status",
    data: { connector_id, run_id: "run", status: { state: { realtime: { name: "slot" } }, status: health } },
  };
};

/** All that waits for the follower. */
async function waiting(follower: EventFollower): Promise<FollowedEvent[]> {
  const all: FollowedEvent[] = [];
  while (true) {
    const events = await follower.next(0);
    if (!events || events.length === 0) return all;
    all.push(...events);
  }
}

const ids = (events: readonly FollowedEvent[]) => events.map(({ id }) => id);

test("a follower gets what happens from then on, and resumes behind the last it had", async () => {
  const hub = new EventHub("boot");
  hub.publish(changed("a"), null);
  const first = hub.follow(null);
  expect(first.position).toBe("boot-1");
  expect(await waiting(first)).toEqual([]);
  hub.publish(changed("b"), null);
  expect(await waiting(first)).toEqual([
    { id: "boot-2", event: "connector", data: '{"connector_id":"b","change":"changed"}' },
  ]);
  hub.publish(changed("c"), null);
  const second = hub.follow("boot-2");
  expect(second.position).toBeNull();
  expect(ids(await waiting(second))).toEqual(["boot-3"]);
  expect(await waiting(hub.follow("boot-3"))).toEqual([]);
});

test("an id that is not known gets a reset, to go on from", async () => {
  const hub = new EventHub("boot");
  hub.publish(changed("a"), null);
  const unknown = [
    "",
    "boot",
    "boot-",
    "boot-2",
    "boot-x",
    "boot-1-1",
    "toob-1",
    "boot--1",
    "boot-1e0",
    `boot-${"9".repeat(99)}`,
  ];
  for (const id of unknown) {
    expect(await waiting(hub.follow(id))).toEqual([{ id: "boot-1", event: "reset", data: "{}" }]);
  }
  expect(ids(await waiting(hub.follow("boot-0")))).toEqual(["boot-1"]);
  const follower = hub.follow("toob-1");
  hub.publish(changed("b"), null);
  expect(ids(await waiting(follower))).toEqual(["boot-1", "boot-2"]);
});

test("after something unknown has happened all clients start anew, also those that come back", async () => {
  const hub = new EventHub("boot");
  hub.publish(changed("a"), null);
  const follower = hub.follow(null);
  hub.publish(changed("b"), null);
  hub.reset();
  expect(await waiting(follower)).toEqual([{ id: "boot-3", event: "reset", data: "{}" }]);
  for (const id of ["boot-1", "boot-2"])
    expect(await waiting(hub.follow(id))).toEqual([{ id: "boot-3", event: "reset", data: "{}" }]);
  hub.publish(changed("c"), null);
  expect(ids(await waiting(hub.follow("boot-3")))).toEqual(["boot-4"]);
});

test("of many changes of one status a slow follower gets the last, in its place among the others", async () => {
  const hub = new EventHub("boot");
  const follower = hub.follow(null);
  hub.publish(status("a", "first"), "status a");
  hub.publish(changed("b"), null);
  for (let n = 0; n < 2_000; n++) hub.publish(status("a", `change ${n}`), "status a");
  const events = await waiting(follower);
  expect(events.map(({ event }) => event)).toEqual(["connector", "status"]);
  expect(ids(events)).toEqual(["boot-2", "boot-2002"]);
  expect(events[1]?.data).toContain("change 1999");
  // Who resumes has missed nothing either: the changes between are not needed.
  expect(ids(await waiting(hub.follow("boot-1")))).toEqual(["boot-2", "boot-2002"]);
});

test("beyond 1,000 waiting events a follower gets a reset, and what came after", async () => {
  const hub = new EventHub("boot");
  const follower = hub.follow(null);
  for (let n = 1; n <= 1_000; n++) hub.publish(changed(`c${n}`), null);
  hub.publish(changed("one too many"), null);
  hub.publish(changed("later"), null);
  const events = await waiting(follower);
  expect(events.map(({ id, event }) => [id, event])).toEqual([
    ["boot-1001", "reset"],
    ["boot-1002", "connector"],
  ]);
  // The last 1,000 are kept for those who come back.
  expect(await waiting(hub.follow("boot-2"))).toHaveLength(1_000);
  expect((await waiting(hub.follow("boot-1"))).map(({ event }) => event)).toEqual(["reset"]);
});

test("beyond 1 MB too, and what is kept to resume from is bounded as well", async () => {
  const hub = new EventHub("boot");
  const follower = hub.follow(null);
  const large = "x".repeat(100_000);
  for (let n = 0; n < 9; n++) hub.publish(status(`c${n}`, large), `status c${n}`);
  expect(await waiting(follower)).toHaveLength(9);
  for (let n = 0; n < 100; n++) hub.publish(status(`c${n}`, large), `status c${n}`);
  const events = await waiting(follower);
  expect(events[0]?.event).toBe("reset");
  const bytes = events.reduce((sum, { data }) => sum + data.length, 0);
  expect(bytes).toBeLessThan(1_048_576);
  expect((await waiting(hub.follow("boot-20")))[0]?.event).toBe("reset");
  hub.publish(status("huge", "x".repeat(2_000_000)), "status huge");
  expect((await waiting(follower)).map(({ event }) => event)).toEqual(["reset"]);
});

test("a follower that waits is woken, one that has waited long enough gets nothing, and a closed one the end", async () => {
  const hub = new EventHub("boot");
  const follower = hub.follow(null);
  const next = follower.next(60_000);
  hub.publish(changed("a"), null);
  expect(ids((await next)!)).toEqual(["boot-1"]);
  expect(await follower.next(1)).toEqual([]);
  const last = follower.next(60_000);
  follower.close();
  follower.close();
  expect(await last).toBeNull();
  expect(hub.clientCount).toBe(0);
});

test("there are 100 at most, and none when the service stops", async () => {
  const hub = new EventHub("boot");
  const followers = Array.from({ length: 100 }, () => hub.follow(null));
  const refusal = (): string => {
    try {
      hub.follow(null);
      return "none";
    } catch (error) {
      return (error as MillraceError).code;
    }
  };
  expect(refusal()).toBe("too_many_clients");
  followers[0]!.close();
  expect(refusal()).toBe("none");
  const next = followers[1]!.next(60_000);
  hub[Symbol.dispose]();
  expect(await next).toBeNull();
  expect([refusal(), hub.clientCount]).toEqual(["state_unavailable", 0]);
  hub.publish(changed("late"), null);
});
