// The log: a JSON object per line, or a line for people; never a secret.

import { expect, test } from "bun:test";
import { createLog } from "../src/log.ts";

function collect(readable: boolean) {
  const lines: string[] = [];
  const log = createLog({ level: "info", readable, write: (line) => lines.push(line) });
  return { log, lines };
}

test("writes JSON lines with level, time and message", () => {
  const { log, lines } = collect(false);
  log.child({ connector: "orders" }).info({ rows: 3 }, "copied");
  log.debug("left out");
  expect(lines).toHaveLength(1);
  expect(JSON.parse(lines[0] ?? "")).toMatchObject({
    level: "info",
    connector: "orders",
    rows: 3,
    msg: "copied",
  });
  expect(lines[0]?.endsWith("\n")).toBe(true);
});

test("redacts secrets wherever they stand", () => {
  const { log, lines } = collect(false);
  const connection = { host: "db", password: "planted", ssl_key: "planted" };
  log.info(
    { password: "planted", connection, sink: { webhook: { bearer: { token: "planted" } } } },
    "started",
  );
  log.info({ source: { postgres: { connection } } }, "started");
  expect(lines.join("")).not.toContain("planted");
  expect(lines.join("")).toContain('"host":"db"');
});

test("shows of an error its name, code, message and causes, and nothing that a driver added", () => {
  const { log, lines } = collect(false);
  const cause = Object.assign(new Error("duplicate key"), { code: "23505", detail: "Key (id)=(planted)" });
  log.error({ error: new Error("failed", { cause }) }, "it failed");
  expect(lines[0]).toContain("23505");
  expect(lines[0]).not.toContain("planted");
});

test("writes a line for people on a terminal", () => {
  const { log, lines } = collect(true);
  log.warn({ connector: "orders" }, "the sink is slow");
  expect(lines[0]).toContain("the sink is slow");
  expect(lines[0]).toContain("connector=orders");
  log.error({ error: new Error("broken") }, "it failed");
  expect(lines[1]).toContain("Error: broken");
});
