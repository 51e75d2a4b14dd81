// One timer for many posts: each is ended in its own time, and none that has ended by itself.

import { expect, test } from "bun:test";
import { type RequestStop, StopList, TimedOut } from "../../../src/sink/http/stop-list.ts";

const timeoutMs = 100;

function endOf(post: RequestStop): Promise<unknown> {
  return new Promise((resolve) => post.onStop(resolve));
}

test("each post times out in its own time, and one that has ended does not", async () => {
  const stops = new StopList(new AbortController().signal, timeoutMs);
  const waits: Promise<number>[] = [];
  for (let n = 0; n < 4; n++) {
    const startedMs = performance.now();
    waits.push(
      endOf(stops.begin()).then((reason) => {
        expect(reason).toBeInstanceOf(TimedOut);
        return performance.now() - startedMs;
      }),
    );
    await Bun.sleep(timeoutMs / 5);
  }
  const ended = stops.begin();
  stops.end(ended);
  for (const waitedMs of await Promise.all(waits)) expect(waitedMs).toBeGreaterThanOrEqual(timeoutMs - 2);
  // Nothing is under way for a while: what comes then has its timeout as well.
  await Bun.sleep(2 * timeoutMs);
  expect(ended.isStopped).toBe(false);
  const late = stops.begin();
  expect(await endOf(late)).toBeInstanceOf(TimedOut);
});

test("all posts end with the signal, and so does one that begins later", () => {
  const stop = new AbortController();
  const stops = new StopList(stop.signal, timeoutMs);
  const posts = [stops.begin(), stops.begin()];
  const reason = new Error("stopped");
  stop.abort(reason);
  for (const post of [...posts, stops.begin()]) expect(post.reason).toBe(reason);
});
