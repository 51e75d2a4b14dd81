// Compresses a body as the sink's `compression` says.

import type { Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import {
  brotliCompressSync,
  constants,
  createBrotliCompress,
  createGzip,
  createZstdCompress,
} from "node:zlib";
import { Semaphore } from "../../concurrency/semaphore.ts";
import type { WebhookSinkConfig } from "../../connector/config/sink-config.ts";
import { PartedBody, type RequestBody } from "../format/values/message-body.ts";

type Compression = WebhookSinkConfig["compression"];

/**
 * Measured on bodies of a megabyte: quality 4 takes a third longer for 0 to 3 % fewer bytes (8 % in prose), 11, the default, 30 times as
 * long. A window of 256 kB: 4 MB, the default, finds little more in the rows of a table, and takes more memory for each body.
 */
const brotliParams = { [constants.BROTLI_PARAM_QUALITY]: 3, [constants.BROTLI_PARAM_LGWIN]: 18 };
/** Only zlib compresses a body in parts. For a whole one libdeflate takes up to 40 % less time, and as many bytes. */
const zlibLevel = 4;
const libdeflateLevel = 3;
/** Each body that is compressed on another thread takes some 10 MB from when it is handed over. So many keep the threads busy. */
const turns = new Semaphore(2);

/** The value of Content-Encoding; null without compression. */
export function contentEncoding(compression: Compression): string | null {
  switch (compression) {
    case "None":
      return null;
    case "Gzip":
      return "gzip";
    case "Zstd":
      return "zstd";
    case "Br":
      return "br";
    default:
      return compression satisfies never;
  }
}

/** Throws `signal.reason` where the signal aborts before a body in parts has had its turn. */
export async function compress(
  compression: Compression,
  body: RequestBody,
  signal: AbortSignal,
): Promise<RequestBody> {
  if (body instanceof PartedBody) return await inTurn(signal, () => compressParts(compression, body));
  switch (compression) {
    case "None":
      return body;
    case "Gzip":
      return Bun.gzipSync(body, { library: "libdeflate", level: libdeflateLevel });
    case "Zstd":
      return Bun.zstdCompressSync(body) as Uint8Array<ArrayBuffer>;
    case "Br":
      return compressBrotli(body);
    default:
      return compression satisfies never;
  }
}

async function inTurn<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  const endTurn = await turns.acquire(signal);
  try {
    return await work();
  } finally {
    endTurn();
  }
}

/** Part by part: neither the body nor the result has to lie in one piece. */
async function compressParts(compression: Compression, body: PartedBody): Promise<PartedBody> {
  const stream = compressionStream(compression);
  if (stream === null) return body;
  const parts: Uint8Array[] = [];
  await pipeline(body.chunks(), stream, async (compressed: AsyncIterable<Uint8Array>) => {
    for await (const part of compressed) parts.push(part);
  });
  return new PartedBody(parts);
}

function compressionStream(compression: Compression): Transform | null {
  switch (compression) {
    case "None":
      return null;
    case "Gzip":
      return createGzip({ level: zlibLevel });
    case "Zstd":
      return createZstdCompress();
    case "Br":
      return createBrotliCompress({ params: brotliParams });
    default:
      return compression satisfies never;
  }
}

/** In this thread: on another one it takes 25 MB more, and the rows are no faster for it. */
function compressBrotli(body: Uint8Array): Uint8Array<ArrayBuffer> {
  const params = { ...brotliParams, [constants.BROTLI_PARAM_SIZE_HINT]: body.length };
  return brotliCompressSync(body, { params });
}
