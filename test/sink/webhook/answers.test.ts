// A refusal says what the receiver said, through the real worker.

import { afterEach, expect, test } from "bun:test";
import { gzipSync } from "node:zlib";
import type { Checkpoint } from "../../../src/change/checkpoint.ts";
import { lsn } from "../../../src/change/lsn.ts";
import { batches, relation, transaction } from "../../support/rows/batch-fixture.ts";
import { type RawRequest, rawReceiver } from "../../support/webhook/raw-receiver.ts";
import { RecordStore, WebhookRig, webhookConnector } from "../../support/webhook/webhook-rig.ts";

const users = relation("users", [["id", 20, "bigint"]]);
const start: Checkpoint = { resumeLsn: lsn(0x1000000n), partial: null, lastVersion: 1n };
const retry = { initial_backoff_ms: 1, max_backoff_ms: 1, max_retries: 1, max_retry_duration_ms: 0 };

const owned: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of owned.splice(0).reverse()) await each[Symbol.asyncDispose]();
});

/** The error that ends a session whose receiver answers so. */
async function refusal(
  answer: (request: RawRequest) => void,
  change: Parameters<typeof webhookConnector>[1] = {},
): Promise<{ readonly code: string; readonly message: string }> {
  const to = await rawReceiver(answer);
  owned.push(to);
  const connector = webhookConnector(`http://127.0.0.1:${to.port}`, { retry, ...change });
  const rig = await WebhookRig.start(connector, new RecordStore());
  owned.push(rig);
  const sink = rig.sink();
  await sink.open();
  await sink.begin(start);
  const change1 = { kind: "insert", relation: users, after: ["1"] } as const;
  for (const batch of batches([transaction(1, [change1])])) await sink.write(batch);
  return (await sink.flush().catch((error: unknown) => error)) as { code: string; message: string };
}

const answerOf = (status: number, body: string, ...headers: readonly string[]) =>
  [`HTTP/1.1 ${status} X`, `Content-Length: ${Buffer.byteLength(body)}`, ...headers, "", body].join("\r\n");

test("a permanent refusal quotes the answer, without the token", async () => {
  const body = '{"error":"column \u202e“email” is missing","authorization":"Bearer my-token"}';
  const error = await refusal(({ socket }) => socket.write(answerOf(422, body)), {
    auth: { bearer: { token: "my-token" } },
  });
  expect(error.code).toBe("webhook_rejected");
  expect(error.message).toContain("the receiver answered 422 to 1 row of public.users at ");
  expect(error.message).toContain(
    `. It said: “{"error":"column "email" is missing","authorization":"Bearer ***"}”. Mend the receiver`,
  );
});

test("so do retries that are used up", async () => {
  const error = await refusal(({ socket }) => socket.write(answerOf(503, "come back on Monday")));
  expect(error.code).toBe("webhook_retries_exhausted");
  expect(error.message).toContain("answered 503 to rows of public.users. It said: “come back on Monday”.");
});

test("an answer without a body, or with one that is no text, says nothing", async () => {
  for (const answer of [answerOf(422, ""), answerOf(422, "PNG", "Content-Type: image/png")]) {
    const { message } = await refusal(({ socket }) => socket.write(answer));
    expect(message).not.toContain("It said");
  }
});

test("a body in chunks, a longer one than is read, a compressed one, and one without an end", async () => {
  const began = performance.now();
  const chunked = await refusal(({ socket }) => {
    socket.write(
      "HTTP/1.1 400 X\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nno,\r\n8;x=y\r\n never !\r\n0\r\n\r\n",
    );
  });
  expect(chunked.message).toContain("It said: “no, never !”");
  const long = await refusal(({ socket }) => {
    socket.write("HTTP/1.1 400 X\r\nContent-Length: 100000\r\n\r\n");
    setTimeout(() => socket.write("x".repeat(100_000)), 50);
  });
  expect(long.message).toContain(`It said: “${"x".repeat(199)}…”`);
  const packed = gzipSync(Buffer.alloc(50_000_000, "y"));
  const compressed = await refusal(({ socket }) => {
    socket.write(`HTTP/1.1 400 X\r\nContent-Encoding: gzip\r\nContent-Length: ${packed.length}\r\n\r\n`);
    socket.write(packed);
  });
  expect(compressed.message).toContain(`It said: “${"y".repeat(199)}…”`);
  const endless = await refusal(({ socket }) => {
    socket.write("HTTP/1.1 400 X\r\n\r\n");
    const more = setInterval(() => socket.write("z".repeat(10_000)), 1);
    socket.once("close", () => clearInterval(more));
  });
  expect(endless.message).toContain(`It said: “${"z".repeat(199)}…”`);
  expect(performance.now() - began).toBeLessThan(20_000);
});

test("a body that stops amid is quoted as far as it came, when the timeout ends it", async () => {
  const answer = "HTTP/1.1 400 X\r\nContent-Length: 100\r\n\r\nthe first half";
  const error = await refusal(({ socket }) => socket.write(answer), { request_timeout_ms: 300 });
  expect(error).toMatchObject({ code: "webhook_rejected" });
  expect(error.message).toContain("It said: “the first half”");
});

test("an answer that breaks off within the token shows no beginning of it", async () => {
  const token = "tok-0123456789";
  const { message } = await refusal(
    ({ socket }) => socket.end(`HTTP/1.1 422 X\r\nContent-Length: 100\r\n\r\nnot ${token.slice(0, 9)}`),
    { auth: { bearer: { token } } },
  );
  expect(message).toContain("It said: “not”");
  expect(message).not.toContain("tok-");
});
