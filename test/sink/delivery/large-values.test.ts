// Values that are made into JSON while they are sent: between small ones, under each compression, signed, and tried again.

import { afterEach, expect, test } from "bun:test";
import { Webhook } from "standardwebhooks";
import type { Checkpoint } from "../../../src/change/checkpoint.ts";
import { lsn } from "../../../src/change/lsn.ts";
import { variants } from "../../support/matrix.ts";
import { batches, relation, transaction } from "../../support/rows/batch-fixture.ts";
import { WebhookReceiver } from "../../support/webhook/webhook-receiver.ts";
import { RecordStore, WebhookRig, webhookConnector } from "../../support/webhook/webhook-rig.ts";

const files = relation(
  "files",
  [
    ["id", 20, "bigint"],
    ["note", 25, "text"],
    ["body", 25, "text"],
    ["raw", 17, "bytea"],
    ["tree", 114, "json"],
  ],
  { replicaIdentity: "full" },
);
const start: Checkpoint = { resumeLsn: lsn(0x1000000n), partial: null, lastVersion: 1n };
const secret = `whsec_${Buffer.from("a key of thirty-two bytes length").toString("base64")}`;

const owned: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of owned.splice(0).reverse()) await each[Symbol.asyncDispose]();
});

const body = 'a "quoted"\\ line\n\t\u0001 and ünïcödé ☃ '.repeat(50_000);
/** Not a whole number of groups of three bytes, nor of what one chunk is made of. */
const raw = Uint8Array.from({ length: 700_001 }, (_, i) => (i * 7 + (i >> 8)) & 255);
const tree = JSON.stringify({ text: "x".repeat(1_500_000), digits: "@" }).replace(
  '"@"',
  "12345678901234567890",
);
const large = (id: number): string[] => [
  String(id),
  "n",
  body,
  `\\x${Buffer.from(raw).toString("hex")}`,
  tree,
];
const small = (id: number): string[] => [String(id), "n", "b", "\\x00ff", "{}"];

const changes = [
  { kind: "insert", relation: files, after: small(1) },
  { kind: "insert", relation: files, after: large(2) },
  { kind: "insert", relation: files, after: small(3) },
  // Another key: two rows, both with the large values.
  { kind: "update", relation: files, before: large(2), after: large(4) },
  { kind: "delete", relation: files, before: large(4) },
  { kind: "insert", relation: files, after: large(5) },
] as const;

type Case = readonly [compression: "None" | "Gzip" | "Zstd" | "Br", maxPayloadBytes: number];
const everyday: readonly Case[] = [
  ["Zstd", 1024 * 1024],
  // All rows in one request.
  ["None", 64 * 1024 * 1024],
];
const others: readonly Case[] = [
  ["None", 1024 * 1024],
  ["Gzip", 1024 * 1024],
  ["Br", 1024 * 1024],
];

test.each(variants(everyday, others))(
  "compression %s, payloads up to %i bytes",
  async (compression, max_payload_bytes) => {
    const to = await WebhookReceiver.start({
      script: ({ index }) => (index % 2 === 0 ? 503 : 200),
    });
    owned.push(to);
    const retry = { initial_backoff_ms: 1, max_backoff_ms: 2, max_retries: 0, max_retry_duration_ms: 0 };
    const connector = webhookConnector(to.url, {
      compression,
      retry,
      signing: { secret },
      batch: { max_batch_size: 0, max_payload_bytes },
    });
    const rig = await WebhookRig.start(connector, new RecordStore());
    owned.push(rig);
    const sink = rig.sink();
    await sink.open();
    await sink.begin(start);
    for (const batch of batches([transaction(1, changes)])) await sink.write(batch);
    await sink.flush();
    const requests = to.deduplicated;
    for (const { body, headers } of requests)
      new Webhook(secret).verify(body, headers as Record<string, string>);
    if (compression === "None") {
      for (const { body, headers } of requests)
        expect(Number(headers["content-length"])).toBe(Buffer.byteLength(body));
    }
    const rows = WebhookReceiver.rows(requests).toSorted(
      (a, b) => Number(a._sm_version) - Number(b._sm_version),
    );
    expect(rows.map(({ id, _sm_deleted }) => [id, _sm_deleted])).toEqual([
      [1, false],
      [2, false],
      [3, false],
      [2, true],
      [4, false],
      [4, true],
      [5, false],
    ]);
    for (const row of rows.filter(({ id }) => id !== 1 && id !== 3)) {
      expect(row.body === body).toBe(true);
      expect(row.raw === Buffer.from(raw).toString("base64")).toBe(true);
      expect(JSON.stringify(row.tree) === JSON.stringify(JSON.parse(tree))).toBe(true);
    }
    for (const { body } of requests.filter(({ body }) => body.includes('"id":2'))) {
      expect(body).toContain(":12345678901234567890}");
    }
  },
);
