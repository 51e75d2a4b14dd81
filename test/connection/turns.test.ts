// Who asks first has the turn first; who no longer wants it takes nobody's.

import { expect, test } from "bun:test";
import { Turns } from "../../src/connection/turns.ts";

test("so many have their turns at once, in the order of asking, and an end counts once", async () => {
  const turns = new Turns(2);
  const order: string[] = [];
  const ask = (name: string) =>
    turns.take().then((end) => {
      order.push(name);
      return end;
    });
  const [a, b] = [await ask("a"), await ask("b")];
  const [c, d] = [ask("c"), ask("d")];
  await Bun.sleep(1);
  expect(order).toEqual(["a", "b"]);
  a();
  a();
  await c;
  await Bun.sleep(1);
  expect(order).toEqual(["a", "b", "c"]);
  b();
  await d;
  expect(order).toEqual(["a", "b", "c", "d"]);
});

test("who is broken off while waiting stops waiting at once, and the turn goes to the next", async () => {
  const turns = new Turns();
  const end = await turns.take();
  const abort = new AbortController();
  const broken = turns.take(abort.signal);
  const next = turns.take(new AbortController().signal);
  abort.abort(new Error("the run is over"));
  await expect(broken).rejects.toThrow("the run is over");
  await expect(turns.take(abort.signal)).rejects.toThrow("the run is over");
  end();
  (await next)();
  const last = await turns.take(AbortSignal.timeout(1_000));
  expect(last).toBeFunction();
});
