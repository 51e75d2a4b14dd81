import { expect, test } from "bun:test";
import { isConnectorId, newConnectorId, slotName } from "../../src/connector/connector-id.ts";

const randomBytes = (count: number) => crypto.getRandomValues(new Uint8Array(count));

test("generated ids are lower case, at most 26 characters, and sorted by time", () => {
  const times = [0, 1, 31, 32, 1_000_000, Date.now(), Date.now() + 1, 253_402_300_799_000];
  const ids = times.map((time) => newConnectorId(time, randomBytes));
  for (const id of ids) {
    expect(id).toMatch(/^[0-9a-z]{26}$/);
    expect(isConnectorId(id)).toBe(true);
  }
  expect(ids.toSorted()).toEqual(ids);
  expect(new Set(Array.from({ length: 1000 }, () => newConnectorId(1, randomBytes))).size).toBe(1000);
});

test("valid and invalid ids", () => {
  for (const id of ["a", "Orders_2-x", "x".repeat(30)]) expect(isConnectorId(id)).toBe(true);
  for (const id of ["", "x".repeat(31), "a b", "a/b", "ä", "a\n", "a\0", "..", "a;drop"]) {
    expect(isConnectorId(id)).toBe(false);
  }
});

test("slot names of ids", () => {
  expect(slotName("Orders-EU_1")).toBe("millrace_orders_eu_1");
  expect(slotName("a-b")).toBe(slotName("A_b"));
  expect(slotName("x".repeat(30)).length).toBeLessThan(64);
});
