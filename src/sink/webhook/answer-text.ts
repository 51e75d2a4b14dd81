// What people are shown of a receiver's answer: the beginning of its body as one line of plain text, without what could disguise it and
// without the secrets of the request.

import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from "node:zlib";
import { plainLine, shortened } from "../../errors/answer-in-reason.ts";
import type { AnswerBody } from "../http/connection.ts";
import { withoutSecrets } from "./request-secrets.ts";

/** Characters of an answer that a reason quotes. */
const maxCharacters = 200;
/** Of one that is kept with a parked message: 1 KiB, whatever they are. */
const maxKeptBytes = 1024;
/** Bytes of a body that are looked at, also of one that grows when it is decompressed. */
const maxBytes = 4096;

export interface AnswerText {
  /** For a reason. */
  readonly short: string;
  /** As much as is kept with a parked message. */
  readonly kept: string;
}

/** `secrets`: as `requestSecrets` returns them. Null: it said nothing, or nothing that is text. */
export async function answerText(body: AnswerBody, secrets: readonly string[]): Promise<AnswerText | null> {
  if (body.bytes.length === 0 || !isText(body.type)) return null;
  const read = await decompressed(body);
  if (read === null) return null;
  const { bytes, isCut } = read;
  const text = withoutSecrets(plainLine(decoded(bytes, body.type)), secrets, isCut);
  const short = shortened(text, maxCharacters);
  return short === null ? null : { short, kept: cutAt(text, maxKeptBytes) };
}

/** A character that is cut is left out. */
function cutAt(text: string, maxUtf8Bytes: number): string {
  const bytes = new TextEncoder().encode(text);
  if (bytes.length <= maxUtf8Bytes) return text;
  return new TextDecoder().decode(bytes.subarray(0, maxUtf8Bytes), { stream: true });
}

const textTypes =
  /^(?:text\/.*|application\/(?:json|xml|xhtml|javascript|x-www-form-urlencoded|yaml|x-yaml|x-ndjson|graphql|.*\+(?:json|xml|yaml)))$/;

/** Where the receiver does not say what it is, it may be. */
function isText(type: string | null): boolean {
  const name = type?.split(";")[0]?.trim().toLowerCase() ?? "";
  return name === "" || textTypes.test(name);
}

const decompressors: Readonly<Record<string, () => NodeJS.ReadWriteStream>> = {
  gzip: () => createGunzip(),
  "x-gzip": () => createGunzip(),
  deflate: () => createInflate(),
  br: () => createBrotliDecompress(),
  zstd: () => createZstdDecompress(),
};

interface Beginning {
  readonly bytes: Uint8Array;
  /** The text goes on, or may. */
  readonly isCut: boolean;
}

function beginning(bytes: Uint8Array, isCut: boolean): Beginning {
  return { bytes: bytes.subarray(0, maxBytes), isCut: isCut || bytes.length > maxBytes };
}

/** Null: it cannot be read. The beginning of a body that is cut, or broken further on, can. */
async function decompressed({ bytes, encoding, isCut }: AnswerBody): Promise<Beginning | null> {
  const name = encoding?.trim().toLowerCase() ?? "identity";
  if (name === "" || name === "identity") return beginning(bytes, isCut);
  const stream = decompressors[name]?.();
  if (!stream) return null;
  const parts: Buffer[] = [];
  let length = 0;
  let isBroken = false;
  try {
    // Nothing more is decompressed than what is read.
    stream.end(bytes);
    for await (const part of stream as AsyncIterable<Buffer>) {
      parts.push(part);
      length += part.length;
      if (length > maxBytes) break;
    }
  } catch {
    // The end is missing, or what follows is broken.
    isBroken = true;
  }
  return length === 0 ? null : beginning(Buffer.concat(parts), isCut || isBroken);
}

function decoded(bytes: Uint8Array, type: string | null): string {
  // A character that is cut at the end is left out.
  return decoderOf(type).decode(bytes, { stream: true });
}

function decoderOf(type: string | null): TextDecoder {
  const label = /;\s*charset="?([^\s";]+)/i.exec(type ?? "")?.[1] ?? "utf-8";
  try {
    return new TextDecoder(label as ConstructorParameters<typeof TextDecoder>[0]);
  } catch {
    return new TextDecoder();
  }
}
