// Large bytea as a real server's text, which is held as its bytes: as each form writes it, in copies, old rows and new ones, beside
// text that looks like it.

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { WebhookSinkRequest } from "../../../src/connector/config/webhook-config.ts";
import { variants } from "../../support/matrix.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";
import { WebhookLife } from "../../support/webhook/webhook-life.ts";
import { WebhookReceiver } from "../../support/webhook/webhook-receiver.ts";
import { RecordStore, webhookConnector } from "../../support/webhook/webhook-rig.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
}, 30_000);
afterAll(() => server[Symbol.asyncDispose]());

/** Not a whole number of groups of three bytes, nor of what one chunk is made of. */
const value = (seed: string) => Buffer.from(seed.repeat(80_001), "hex");
const [first, second] = [value("00fbff3e5c22a90d10"), value("8010fe07c3e29cff41")];
const sqlOf = (bytes: Buffer) => `decode('${bytes.toString("hex")}', 'hex')`;
const looksLikeIt = `\\x${"ab".repeat(600_000)}`;
const almostLooksLikeIt = `${looksLikeIt}ZZ`;

type Row = Record<string, unknown>;
type Format = WebhookSinkRequest["format"] & object;
const debezium = (binary_handling_mode: "Base64UrlSafe" | "Hex"): Format => ({
  debezium: { data_types: { binary_handling_mode } },
});

type Case = readonly [name: string, format: Format, written: (bytes: Buffer) => string];
const everyday: readonly Case[] = [
  ["native", { native: {} }, (bytes) => bytes.toString("base64")],
  ["debezium_hex", debezium("Hex"), (bytes) => bytes.toString("hex")],
];
const others: readonly Case[] = [
  [
    "debezium_url",
    debezium("Base64UrlSafe"),
    (bytes) => bytes.toString("base64").replaceAll("+", "-").replaceAll("/", "_"),
  ],
];

test.each(variants(everyday, others))(
  "%s",
  async (name, format, written) => {
    await server.createDatabase(name);
    await server.query(
      `create table keyed (id int primary key, raw bytea, body text); alter table keyed replica identity full;
       create table keyless (id int, raw bytea, body text); alter table keyless replica identity full;
       insert into keyed values (0, ${sqlOf(first)}, '${looksLikeIt}');
       insert into keyless select k.* from keyed k, generate_series(1, 2)`,
      name,
    );
    await using receiver = await WebhookReceiver.start();
    const connector = webhookConnector(receiver.url, { format, batch: { max_batch_size: 1 } });
    const life = await WebhookLife.start(server.connection(name), connector, new RecordStore(), {
      yes: false,
    });
    await waitFor("the stream", () => life.phase === "realtime");
    for (const table of ["keyed", "keyless"]) {
      await server.query(
        `insert into ${table} values (1, ${sqlOf(first)}, '${looksLikeIt}');
         update ${table} set raw = ${sqlOf(second)}, body = '${almostLooksLikeIt}' where id = 1; delete from ${table} where id = 1`,
        name,
      );
    }
    await waitFor("nine rows", () => receiver.deduplicated.length === 9, { timeoutMs: 20_000 });
    const copied = { id: 0, raw: written(first), body: looksLikeIt };
    const rows = [
      { id: 1, raw: written(first), body: looksLikeIt },
      { id: 1, raw: written(second), body: almostLooksLikeIt },
    ];
    const expected =
      name === "native"
        ? [copied, rows[0], rows[1], rows[1]]
        : [
            { before: null, after: copied },
            { before: null, after: rows[0] },
            { before: rows[0], after: rows[1] },
            { before: rows[1], after: null },
          ];
    for (const table of ["keyed", "keyless"]) {
      const got = receiver.deduplicated
        .filter(({ path }) => path.endsWith(`/${table}`))
        .map(({ body }) => JSON.parse(body) as Row)
        .map(({ id, raw, body, before, after }) =>
          name === "native" ? { id, raw, body } : { before, after },
        );
      // Equal rows of a copy are as many requests.
      const twice = table === "keyless" ? expected.slice(0, 1) : [];
      expect(Bun.deepEquals(got, [...twice, ...expected])).toBe(true);
    }
    await life.stop();
    await server.query(`select pg_drop_replication_slot('millrace_${name}')`, name);
  },
  60_000,
);
