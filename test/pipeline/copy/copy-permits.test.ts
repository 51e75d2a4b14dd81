import { expect, test } from "bun:test";
import { CopyPermits } from "../../../src/pipeline/copy/copy-permits.ts";

test("no more goes on at once than there is room for, in its order, and what is not wanted any more makes way", async () => {
  const room = new CopyPermits(2);
  const never = new AbortController().signal;
  const log: string[] = [];
  const gates = new Map<string, () => void>();
  const work = (name: string) => () => {
    log.push(name);
    return new Promise<string>((resolve) => gates.set(name, () => resolve(name)));
  };
  const one = room.within(1, never, work("one"));
  const unwanted = new AbortController();
  const both = room.within(2, unwanted.signal, work("both"));
  const last = room.within(1, never, work("last"));
  await Bun.sleep(0);
  // It would fit, and does not overtake.
  expect(log).toEqual(["one"]);
  unwanted.abort(new Error("not wanted"));
  await expect(both).rejects.toThrow("not wanted");
  await Bun.sleep(0);
  expect(log).toEqual(["one", "last"]);
  const whole = room.within(2, never, work("whole"));
  gates.get("one")?.();
  expect(await one).toBe("one");
  expect(log).toEqual(["one", "last"]);
  gates.get("last")?.();
  expect(await last).toBe("last");
  await Bun.sleep(0);
  gates.get("whole")?.();
  expect(await whole).toBe("whole");
});
