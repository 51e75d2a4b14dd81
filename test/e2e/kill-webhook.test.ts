// kill -9 of the service at random moments, while time cuts the requests and the receiver answers 5xx, resets, hangs, or answers too
// late. Deduplicated by Idempotency-Key alone, every change arrived exactly once; by `_sm_version` the rows are the source's.

import { expect, setDefaultTimeout, test } from "bun:test";
import {
  auditedConnector,
  auditedSchema,
  inSourceOrder,
  random,
  type SentRow,
  writeUntil,
} from "../support/loads/audited-load.ts";
import { heldByVersion, heldInOrder, keysThatWentBack, rowsOf } from "../support/oracles/webhook-oracles.ts";
import { builtStage, stateIn } from "../support/program/built-stage.ts";
import { waitFor } from "../support/wait-for.ts";
import { type ReceiverScript, WebhookReceiver } from "../support/webhook/webhook-receiver.ts";

// Starting servers takes its time on a busy machine.
setDefaultTimeout(180_000);

/** `bun run test:long` has 50. */
const kills = Number(process.env.MILLRACE_WEBHOOK_KILLS ?? 2);
const limitMs = 180_000 + kills * 10_000;
const timeoutMs = 400;
/** A service that dies at once delivers little: what has gathered after many deaths is sent within a minute all the same. */
const mostPauseMs = 12 * Math.max(1, kills / 4);

const moody: ReceiverScript = () => {
  const mood = Math.random();
  if (mood < 0.08) return [500, 502, 503, 429][random(4)];
  if (mood < 0.11) return { kind: "hang" };
  if (mood < 0.14) return { kind: "reset" };
  // It has the rows, and nobody hears of it.
  if (mood < 0.17) return { kind: "answer", status: 200, delayMs: timeoutMs + 100 };
  return { kind: "answer", status: 200, delayMs: random(15) };
};

test(
  `every change exactly once under ${kills} kill -9`,
  async () => {
    await using stage = await builtStage({
      databases: ["a", "state"],
      source: auditedSchema,
      environment: (server) => stateIn(server, "state"),
    });
    const { server, service } = stage;
    await using receiver = await WebhookReceiver.start({ script: moody });
    await auditedConnector(stage, { url: receiver.url, request_timeout_ms: timeoutMs });

    const over = new AbortController();
    await using client = await server.connect("a");
    const writing = writeUntil(over.signal, client, mostPauseMs);
    try {
      for (let kill = 0; kill < kills; kill++) {
        const { length } = receiver.requests;
        await receiver.until(() => receiver.requests.length > length, 60_000);
        await Bun.sleep(random(500));
        await service.kill();
        await service.launch();
      }
    } finally {
      over.abort();
      await writing;
    }
    const wanted = await server.query<SentRow>("select * from audit.sent", "a");
    const sent = () =>
      rowsOf(receiver, "t").map(({ id, n, _sm_deleted }) => ({ id, n, deleted: _sm_deleted }) as SentRow);
    const isThere = () => sent().length >= wanted.length;
    await waitFor("all changes", isThere, { timeoutMs: 60_000, intervalMs: 100 }).catch(() => {});
    expect(inSourceOrder(sent())).toEqual(inSourceOrder(wanted));

    const rows = await server.query<{ id: number; n: number }>("select * from t order by id", "a");
    for (const held of [heldByVersion(receiver, "t"), heldInOrder(receiver, "t")])
      expect([...held.values()].toSorted((a, b) => Number(a.id) - Number(b.id))).toEqual(rows);
    expect(keysThatWentBack(rowsOf(receiver, "t"))).toEqual([]);
    const bodies = new Map<string, string>();
    for (const { headers, body } of receiver.requests) {
      const key = headers["idempotency-key"]!;
      expect(bodies.get(key) ?? body).toBe(body);
      bodies.set(key, body);
    }
    expect(receiver.requests.length).toBeGreaterThan(bodies.size);
  },
  limitMs,
);
