// The log: one JSON object per line, or one line for people, and never a secret.

import { expect, test } from "bun:test";
import { saying } from "../src/errors/answer-in-reason.ts";
import { messageKey, ofTransaction, rowOf, rowOfCopy } from "../src/errors/row-in-reason.ts";
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

test("redacts secrets everywhere", () => {
  const { log, lines } = collect(false);
  const connection = { host: "db", password: "planted", ssl_key: "planted" };
  log.info(
    { password: "planted", connection, sink: { webhook: { bearer: { token: "planted" } } } },
    "started",
  );
  log.info({ source: { postgres: { connection } } }, "started");
  const alerts = { url: "https://chat.example.com/planted", secret: "planted" };
  log.info(
    { settings: { alerts, otlp: { url: "http://collector", headers: { key: "planted" } } } },
    "started",
  );
  expect(lines.join("")).not.toContain("planted");
  expect(lines.join("")).toContain('"host":"db"');
});

test("contains no row that a sink has refused, whatever its values are", () => {
  const { log, lines } = collect(false);
  const keys = [
    "planted",
    "planted, of the transaction that was committed at 0/1.) planted",
    "planted).",
    "(planted",
  ];
  for (const key of keys) {
    const row = rowOf(`(email, n)=(${key}, 2)`);
    const hint = "Drop the constraint (for all rows); then Start.";
    const stream = `Table public.t: refused.${row}${ofTransaction("0/16B3748")} ${hint}`;
    log.warn({ reason: stream }, "connector needs attention");
    log.warn({ error: new Error(stream) }, "a fault");
    log.warn(
      { reason: `Table public.t: refused.${rowOfCopy(3, `(email)=(${key})`)}. Mend it.` },
      "task failed",
    );
    log.warn({ reason: `Table public.t: refused.${rowOf(`(email)=(${key})`)}.` }, "task failed");
  }
  expect(lines.join("")).not.toContain("planted");
  const [first, , third] = lines.map((line) => JSON.parse(line).reason as string);
  expect(first).toStartWith("Table public.t: refused. The row is (told by the status), of the transaction");
  expect(first).toEndWith("0/16B3748. Drop the constraint (for all rows); then Start.");
  expect(third).toBe("Table public.t: refused. It is row 3 of the copy: (told by the status). Mend it.");
});

test("contains no key of a message that a sink has refused, also where the reason is cut off in it", () => {
  const { log, lines } = collect(false);
  for (const key of ["planted", "planted” planted", "“planted", 'key “planted”) {"a":"planted"}']) {
    const reason = `A message is too large (${messageKey(key)}). Raise it.`;
    log.warn({ reason }, "connector needs attention");
    log.warn({ reason: reason.slice(0, reason.lastIndexOf("planted") + 7) }, "connector needs attention");
    log.warn({ error: new Error("outer", { cause: new Error(reason) }) }, "a fault");
  }
  expect(lines.join("")).not.toContain("planted");
  expect(JSON.parse(lines[0]!).reason).toBe("A message is too large (key (told by the status)). Raise it.");
});

test("contains nothing of what a receiver said, whatever marks that holds", () => {
  const { log, lines } = collect(false);
  for (const said of ["planted", "planted” planted", "“planted”. It said: “planted", "\nplanted\n"]) {
    const reason = `the receiver answered 422 to 1 row${saying(said)}. Mend it`;
    log.warn({ reason }, "connector needs attention");
    log.warn({ error: new Error("outer", { cause: new Error(reason) }) }, "a fault");
  }
  expect(lines.join("")).not.toContain("planted");
  expect(JSON.parse(lines[0]!).reason).toBe(
    "the receiver answered 422 to 1 row. It said something (told by the status). Mend it",
  );
});

test("shows an error's name, code, message and causes, and no property that a driver added", () => {
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

test("sends a terminal no control character of others, who name tables and say why they refuse", () => {
  const { log, lines } = collect(true);
  const foreign = "\x1b]0;title\x07 \x1b[2J\x9b2J\r\x7f\nforged";
  log.warn({ reason: foreign, table: { name: foreign } }, foreign);
  log.error({ error: new Error(foreign) }, "it failed");
  log.error({ error: foreign, [foreign]: 1 }, "it failed");
  // biome-ignore lint/suspicious/noControlCharactersInRegex: colours are the log's own.
  const own = lines.map((line) => line.replaceAll(/\x1b\[\d+m/g, ""));
  for (const line of own) expect(line).not.toMatch(/[^\P{Cc}\n]/u);
  expect(own[0]?.trimEnd()).not.toContain("\n");
  expect(own.join("")).toContain("forged");
});
