// Heads of requests, byte for byte.

import { expect, test } from "bun:test";
import { requestHead, requestStart } from "../../../src/sink/http/request-head.ts";

test("request line, host, what all have, what this one has, and the body's length", () => {
  const start = requestStart(new URL("https://hook.example:8443/a b/ü?x=1#y"), { "x-a": "1", "x-b": "Zoë" });
  expect(requestHead(start, { "idempotency-key": "k" }, 12)).toBe(
    "POST /a%20b/%C3%BC?x=1 HTTP/1.1\r\nhost: hook.example:8443\r\nx-a: 1\r\nx-b: Zoë\r\n" +
      "idempotency-key: k\r\ncontent-length: 12\r\n\r\n",
  );
});

test.each([
  ["a line's end", { a: "x\r\nHost: other" }],
  ["a line's end in a name", { "a\n": "x" }],
  ["a zero byte", { a: "\0" }],
  ["what is no byte", { a: "€" }],
])("%s does not get into a head", (_, headers) => {
  expect(() => requestStart(new URL("http://hook.example/"), headers)).toThrow(TypeError);
  expect(() => requestHead("", headers, 0)).toThrow(TypeError);
});
