import { expect, test } from "bun:test";
import { tickTexts } from "../../console/charts/ticks.ts";
import { bytes, grouped, percent, perSecond, plural, shortCount } from "../../console/text/numbers.ts";
import { ago, duration, tickDuration } from "../../console/text/times.ts";

/** Thin spaces are hard to see: tests write `_`. */
const seen = (text: string) => text.replaceAll("\u202f", "_");

test.each([
  [0, "0"],
  [999, "999"],
  [1_000, "1_000"],
  [1_234_567, "1_234_567"],
  [-12_345.5, "−12_345.5"],
  [Number.NaN, "NaN"],
])("groups %p", (value, text) => {
  expect(seen(grouped(value))).toBe(text);
});

test.each([
  [0, "0"],
  [950, "950"],
  [1_234, "1.23_k"],
  [45_600, "45.6_k"],
  [999_999, "1.00_M"],
  [99_960, "100_k"],
  [7_000_000_000, "7.00_G"],
])("shortens %p", (value, text) => {
  expect(seen(shortCount(value))).toBe(text);
});

test("has units", () => {
  expect(seen(bytes(1_536))).toBe("1.54_kB");
  expect(seen(bytes(12))).toBe("12_B");
  expect(seen(perSecond(0.24))).toBe("0.2/s");
  expect(seen(perSecond(130_000))).toBe("130_k/s");
  expect(seen(plural(1, "table"))).toBe("1_table");
  expect(seen(plural(1_200, "table"))).toBe("1_200_tables");
});

test("says 100 % when all is done, and not before", () => {
  expect(seen(percent(999, 1000))).toBe("99_%");
  expect(seen(percent(1000, 1000))).toBe("100_%");
  expect(seen(percent(0, 0))).toBe("0_%");
});

test.each([
  [0, "0_s"],
  [0.004, "4_ms"],
  [59.4, "59_s"],
  [61, "1_min 1_s"],
  [3_600, "1_h"],
  [7_500, "2_h 5_min"],
  [90_000, "1_d 1_h"],
  [-5, "0_s"],
])("a duration of %p s", (seconds, text) => {
  expect(seen(duration(seconds))).toBe(text);
});

test.each([
  [0, "now"],
  [3_000, "3_s ago"],
  [119_000, "1_min ago"],
  [-300_000, "in 5_min"],
  [200_000_000, "2_d ago"],
])("a time %p ms ago", (distance, text) => {
  expect(seen(ago(1_000_000_000_000 - distance, 1_000_000_000_000))).toBe(text);
});

test("the ticks of an axis are distinct, and none is rounded to another", () => {
  const texts = (ticks: readonly number[]) =>
    tickTexts(ticks, tickDuration).map((text) => text.replaceAll("\u202f", " "));
  expect(texts([0, 0.5, 1, 1.5, 2])).toEqual(["0 s", "500 ms", "1 s", "1.5 s", "2 s"]);
  expect(texts([0, 2.5, 5, 7.5])).toEqual(["0 s", "2.5 s", "5 s", "7.5 s"]);
  expect(texts([0, 60, 90])).toEqual(["0 s", "1 min", "1 min 30 s"]);
  expect(tickTexts([1, 1.4, 2], (tick) => String(Math.round(tick)))).toEqual(["1", "", "2"]);
  expect(tickTexts([0, 3_000], shortCount)).toEqual(["0", "3\u202fk"]);
});
