import { expect, test } from "bun:test";
import { LiveDisplay } from "../../src/demo/live-display.ts";

function display(isTerminal: boolean) {
  const written: string[] = [];
  let nowMs = 0;
  const output = { write: (text: string) => written.push(text), isTerminal, columns: () => 10 };
  const live = new LiveDisplay(output, () => nowMs);
  return { live, written, pass: (ms: number) => (nowMs += ms) };
}

test("on a terminal, lines are overwritten, cut to its width, and printed lines stay above them", () => {
  const { live, written } = display(true);
  live.show(["one", "two is far too long"]);
  live.show(["three"]);
  live.print("stays");
  live.show(["four"]);
  expect(written).toEqual([
    "one\ntwo is far\n",
    "\x1b[2A\x1b[J",
    "three\n",
    "\x1b[1A\x1b[J",
    "stays\n",
    "four\n",
  ]);
});

test("on other outputs, lines are printed now and then, without control characters", () => {
  const { live, written, pass } = display(false);
  live.show(["one"]);
  live.show(["lost"]);
  pass(2_000);
  live.show(["two"]);
  expect(written.join("")).toBe("one\ntwo\n");
});
