// What answers in the service's place, and credentials that no header can have.

import { describe, expect, test } from "bun:test";
import { throwIfForeign } from "../../console/api/client.ts";
import { basicCredentials, bearerCredentials } from "../../console/api/credentials.ts";

const answered = (type: string) => () =>
  throwIfForeign(new Response("x", { headers: { "content-type": type } }));

describe("an answer", () => {
  test("of the service is taken", () => {
    expect(answered("application/json; charset=utf-8")).not.toThrow();
    expect(() => throwIfForeign(new Response(null, { status: 204 }))).not.toThrow();
  });

  test("of a proxy's page is told as such, and not taken for data", () => {
    expect(answered("text/html")).toThrow("Something between this browser and the service");
  });
});

test("a token that no header can have is none", () => {
  expect(bearerCredentials(" full ")).toBe("Bearer full");
  for (const token of ["", "two words", "pässword", "zero\u200bwidth", "😀"])
    expect(bearerCredentials(token)).toBeNull();
  expect(basicCredentials("jörg", "😀")).toStartWith("Basic ");
});
