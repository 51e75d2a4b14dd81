// Static headers of a webhook that could never be sent as they are given.

import { expect, test } from "bun:test";
import { checkSinkBody } from "../../../src/connector/request/check-request.ts";
import type { MillraceError, Violation } from "../../../src/errors/millrace-error.ts";
import { webhookSinkSample } from "../samples.ts";

function violations(webhook: object): readonly Violation[] {
  try {
    checkSinkBody({ sink: webhookSinkSample(webhook) });
    return [];
  } catch (error) {
    return (error as MillraceError).violations;
  }
}

const named = (...names: string[]) => names.map((name) => ({ name, value: "a" }));

test("a host belongs into the url", () => {
  const message = "the host of the url is sent: leave this header out, and name the host in url";
  const path = "/sink/webhook/headers/static_/1/name";
  expect(violations({ headers: { static_: named("X-Env", "Host") } })).toEqual([{ path, message }]);
});

test.each([
  ...[
    "Content-Length",
    "Transfer-Encoding",
    "connection",
    "Keep-Alive",
    "TE",
    "Trailer",
    "Upgrade",
    "Expect",
  ],
  ...["Proxy-Authorization", "Proxy-Connection"],
])("%s is the HTTP client's", (name) => {
  const message = "the HTTP client sets this header by itself: leave it out";
  const path = "/sink/webhook/headers/static_/0/name";
  expect(violations({ headers: { static_: named(name) } })).toEqual([{ path, message }]);
});

test("the signature's headers are refused where there is a signature", () => {
  const headers = { static: named("webhook-id", "Webhook-Timestamp", "WEBHOOK-SIGNATURE") };
  expect(violations({ headers })).toEqual([]);
  const signed = violations({ headers, signing: { secret: "***" } });
  expect(signed.map(({ path }) => path)).toEqual(
    [0, 1, 2].map((index) => `/sink/webhook/headers/static/${index}/name`),
  );
  expect(signed[0]?.message).toBe("signing sets this header: leave it out, or set signing to null");
});

test("one name twice, in whatever case, is one header", () => {
  expect(violations({ headers: { static_: named("X-Tag", "X-Env", "x-tag") } })).toEqual([
    {
      path: "/sink/webhook/headers/static_/2/name",
      message:
        "another static header has this name, whatever its case: give one, with both values and a comma between them",
    },
  ]);
});

test("a name or a value that is none is told which form is right", () => {
  const [name, value] = violations({ headers: { static_: [{ name: "X Env", value: "a\nb" }] } });
  expect(name?.message).toBe(
    "not in the allowed form. Name of the header. Letters, digits and !#$%&'*+-.^_`|~ alone, as in X-Env.",
  );
  expect(value?.message).toContain("Visible ASCII characters, with blanks between them only.");
  const [key] = violations({ headers: { idempotency_key_header: "Key:" } });
  expect(key?.message).toContain("as in X-Env");
});
