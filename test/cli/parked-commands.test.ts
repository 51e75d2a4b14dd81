import { expect, test } from "bun:test";
import { type SelectionFlags, watchRetry } from "../../src/cli/parked-commands.ts";
import { commandRig } from "../support/api/command-rig.ts";

const streaming = { connector: { id: "orders" }, status: { state: { realtime: {} }, status: {} } };

/** What a retry prints, and why it fails, where `left` are what looks find: parked messages, and how many of them are asked for. */
async function watched(left: readonly (readonly [number, number])[], connector: object = streaming) {
  const all = [[3, 0] as const, ...left];
  const looks = all.map(([total, asked]) => ({
    parked: [],
    next: null,
    total,
    asked,
    as_of: "2026-01-31T12:00:00Z",
  }));
  const { context, requests, printed } = commandRig(({ call }) => {
    if (call.startsWith("POST")) return Response.json({ count: 3 });
    return Response.json(call.endsWith("/parked") ? (looks.shift() ?? null) : connector);
  });
  const flags: SelectionFlags = { table: "public.t" };
  const failure = await watchRetry(context, "orders", undefined, flags).catch(
    ({ message }: Error) => message,
  );
  return { printed, failure, first: requests[1] };
}

test("a retry that is watched tells how many are left, and ends when none is", async () => {
  const { printed, failure, first } = await watched([
    [3, 3],
    [3, 3],
    [1, 1],
    [0, 0],
  ]);
  expect(first).toEqual({
    call: "POST connectors/orders/parked/retry",
    body: { schema: "public", table: "t", before: "2026-01-31T12:00:00Z" },
  });
  expect(printed).toEqual([
    "3 messages parked, 3 to be sent again",
    "1 message parked, 1 to be sent again",
    "0 messages parked, 0 to be sent again",
  ]);
  expect(failure).toBeUndefined();
});

test("it fails where some were refused again", async () => {
  const { failure } = await watched([
    [3, 3],
    [2, 0],
  ]);
  expect(failure).toBe("Still parked: millrace parked list orders");
});

test.each([
  [{ shutdown: {} }, "orders is stopped, and its messages wait: millrace connectors start orders"],
  [{ complete: {} }, "orders sends nothing between its rounds, and its messages wait"],
])("it does not wait for a connector that sends nothing before somebody acts: %j", async (state, reason) => {
  const { failure } = await watched([[3, 3]], { ...streaming, status: { state, status: {} } });
  expect(failure).toContain(reason);
});

test("one message is not watched: it is shown", async () => {
  const { context, requests } = commandRig(() => Response.json({ count: 1 }));
  expect(watchRetry(context, "orders", "m1", {})).rejects.toThrow("millrace parked show orders m1");
  expect(requests).toEqual([]);
});
