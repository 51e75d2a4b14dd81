import { expect, test } from "bun:test";
import { bastionsOf, parseBastion } from "../../../src/connector/config/bastions.ts";

test("the first bastion, then the alternates in order, on the first one's port unless they name one", () => {
  const ssh = { bastion_host: "a", bastion_port: 2222, bastion_alternates: ["b", "c:22", "[::1]:23", "::1"] };
  expect(bastionsOf(ssh)).toEqual([
    { host: "a", port: 2222 },
    { host: "b", port: 2222 },
    { host: "c", port: 22 },
    { host: "::1", port: 23 },
    { host: "::1", port: 2222 },
  ]);
});

test.each(["", ":22", "b:", "b:0", "b:65536", "b:x", "user@b", "ssh://b", "a b", "[::1", "b/c"])(
  "%j is no server",
  (text) => {
    expect(parseBastion(text, 22)).toBeNull();
  },
);
