import { expect, test } from "bun:test";
import { failureWords } from "../../../src/sink/http/failure-words.ts";

test("say what is wrong and where, and keep the code", () => {
  expect(failureWords("ECONNREFUSED", "db1:9")).toBe(
    "nothing listens at db1:9 (ECONNREFUSED): see that the server is started, and that the port is right",
  );
  expect(failureWords("ENOTFOUND", "db1:9")).toContain("does not resolve (ENOTFOUND)");
  expect(failureWords("EODD", "db1:9")).toBe("the request to db1:9 failed: EODD");
});
