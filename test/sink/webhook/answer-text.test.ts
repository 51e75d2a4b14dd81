// What a reason quotes of an answer's body, whatever that holds and however it was sent.

import { describe, expect, test } from "bun:test";
import { brotliCompressSync, constants, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import fc from "fast-check";
import { answerText } from "../../../src/sink/webhook/answer-text.ts";
import { requestSecrets } from "../../../src/sink/webhook/request-secrets.ts";
import { webhookConnector } from "../../support/webhook/webhook-rig.ts";

interface Headers {
  readonly type?: string | null;
  readonly encoding?: string | null;
  readonly isCut?: boolean;
}

const whole = { type: "text/plain", encoding: null, isCut: false };

const say = async (bytes: string | Uint8Array, headers: Headers = {}, secrets: readonly string[] = []) =>
  (await answerText({ ...whole, ...headers, bytes: Buffer.from(bytes) }, secrets))?.short ?? null;

test("a line of up to 200 characters, however many bytes those have", async () => {
  expect(await say('{"error":"unknown\n\t column"}')).toBe('{"error":"unknown column"}');
  expect(await say("x".repeat(200))).toBe("x".repeat(200));
  expect(await say("🍐".repeat(1_000))).toBe(`${"🍐".repeat(199)}…`);
  expect(await say("")).toBeNull();
  expect(await say(" \r\n\0")).toBeNull();
});

test("nothing in it turns the writing direction, moves the cursor, or cannot be stored", async () => {
  expect(await say("a\u202egpj.\u2066exe\u200b\x1b[31m\0b\u2028c\ufeff")).toBe("agpj.exe[31mb c");
  await fc.assert(
    fc.asyncProperty(fc.string({ unit: "binary" }), async (text) => {
      expect((await say(text)) ?? "").not.toMatch(/\p{C}|[\u2028\u2029]/u);
    }),
  );
});

test("what is no UTF-8 is replaced, another character set is read, and an unknown one is taken for UTF-8", async () => {
  expect(await say(Uint8Array.of(0x61, 0xff, 0x62))).toBe("a\ufffdb");
  expect(await say(Uint8Array.of(0x62, 0xe4), { type: "text/plain; charset=iso-8859-1" })).toBe("bä");
  expect(await say("bä", { type: 'text/plain; charset="none such"' })).toBe("bä");
});

describe("only text is quoted", () => {
  test.each([
    "text/html; charset=utf-8",
    "application/json",
    "application/problem+json",
    "Application/XML",
    null,
    "",
  ])("%s is text", async (type) => {
    expect(await say("no", { type })).toBe("no");
  });
  test.each(["image/png", "application/octet-stream", "application/pdf", "multipart/form-data"])(
    "%s is none",
    async (type) => {
      expect(await say("no", { type })).toBeNull();
    },
  );
});

describe("a compressed body", () => {
  // Brotli's highest quality, its default, takes ten times as long, and makes the bomb no smaller.
  const brotli = (bytes: string | Buffer) =>
    brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } });
  const ways = { gzip: gzipSync, deflate: deflateSync, br: brotli, zstd: zstdCompressSync };
  test.each(Object.entries(ways))(
    "%s is read, and never more of it than a few kilobytes",
    async (encoding, way) => {
      expect(await say(way("not like this"), { encoding })).toBe("not like this");
      const bomb = way(Buffer.alloc(1 << 28, "x"));
      const before = process.memoryUsage().rss;
      expect(await say(bomb.subarray(0, 4096), { encoding })).toBe(`${"x".repeat(199)}…`);
      expect(process.memoryUsage().rss - before).toBeLessThan(32 << 20);
    },
  );

  test("that is broken, or of an unknown kind, is left out", async () => {
    expect(await say("no gzip", { encoding: "gzip" })).toBeNull();
    expect(await say("no", { encoding: "sdch" })).toBeNull();
  });
});

describe("secrets of the request", () => {
  const { webhook } = webhookConnector("http://localhost", {
    auth: { basic: { username: "me", password: 'p"a&s/s' } },
    signing: { secret: `whsec_${Buffer.alloc(24, 7).toString("base64")}` },
    headers: {
      static_: [
        { name: "X-Tenant-Key", value: "static-secret" },
        { name: "X-Pass-Key", value: "pin1234" },
        { name: "X-Env", value: "prod" },
      ],
    },
  }).sink;
  const secrets = requestSecrets(webhook!);

  test.each([
    'bad credentials p"a&s/s',
    JSON.stringify({ password: 'p"a&s/s' }),
    '{"password":"p\\"a&s\\/s"}',
    "at ?p=p%22a%26s%2Fs",
    "<b>p&quot;a&amp;s/s</b>",
    `Authorization: Basic ${Buffer.from('me:p"a&s/s').toString("base64")}`,
    `secret ${webhook!.signing!.secret}`,
    `key ${webhook!.signing!.secret.slice(6)}`,
    "X-Tenant-Key: static-secret",
    "X-Pass-Key: pin1234",
    "hidden by what is left out: sta\u200btic-sec\0ret",
  ])("%s", async (echo) => {
    const text = await say(echo, {}, secrets);
    expect(text).toContain("***");
    expect(text).not.toMatch(/a&|a%26|a&amp;|static-|pin1234|BwcH|bWU6/);
  });

  test("a bearer token, and the value of a header", () => {
    const of = (auth: NonNullable<typeof webhook>["auth"]) => requestSecrets({ ...webhook!, auth });
    expect(of({ bearer: { token: "a-token" } })).toContain("a-token");
    expect(of({ header: { name: "X-Key", value: "a-key" } })).toContain("a-key");
  });

  test("that are cut where reading ends leave no beginning", async () => {
    const long = `tok${"0123456789".repeat(100)}`;
    // After four of them are replaced, what is left of the fifth would be quoted.
    const text = await say(`${long} `.repeat(5).slice(0, 4096), { isCut: true }, [long]);
    expect(text).toBe("*** *** *** ***");
  });

  describe("leave no beginning where the answer breaks off sooner", () => {
    const token = "tok-0123456789";
    const text = `token ${token.slice(0, 8)}`;
    test.each([
      ["as it is sent", text, { isCut: true }],
      ["compressed", gzipSync(text), { isCut: true, encoding: "gzip" }],
      ["compressed, amid what is compressed", gzipSync(text).subarray(0, -6), { encoding: "gzip" }],
    ])("%s", async (_, bytes, headers) => {
      expect(await say(bytes, headers, [token])).toBe("token");
    });
    test("and what is whole stays so", async () => {
      expect(await say(text, {}, [token])).toBe(text);
      expect(await say(gzipSync(text), { encoding: "gzip" }, [token])).toBe(text);
    });
  });

  test("a short value of a static header stays legible", async () => {
    expect(await say("production is down", {}, secrets)).toBe("production is down");
  });
});
