// The body of a request: bytes, or, where it holds large values, parts that are made while it is sent.

import { GcPacer } from "../../../memory/gc-pacer.ts";
import { releaseBytes } from "../../../memory/release-bytes.ts";
import { releaseArena } from "./arena-references.ts";
import type { LargeValue } from "./large-value.ts";

export type RequestBody = Uint8Array<ArrayBuffer> | PartedBody;

/** Can be read any number of times. */
export class PartedBody {
  readonly length: number;

  constructor(private parts: readonly (Uint8Array | LargeValue)[]) {
    this.length = parts.reduce((sum, part) => sum + part.length, 0);
  }

  *chunks(): Generator<Uint8Array> {
    for (const part of this.parts) {
      if (part instanceof Uint8Array) yield part;
      else yield* part.chunks();
    }
  }

  /** It is sent no more. */
  release(): void {
    for (const part of this.parts) if (!(part instanceof Uint8Array)) releaseArena(part.source);
    this.parts = [];
  }

  /** As `chunks`, for one who needs none of them once it asks for the next. */
  *passing(): Generator<Uint8Array> {
    const passing = new GcPacer();
    for (const chunk of this.chunks()) {
      yield chunk;
      passing.released(chunk.length);
    }
  }
}

/** Gives its memory back: it is sent no more. */
export function releaseBody(body: RequestBody): void {
  if (body instanceof PartedBody) body.release();
  else releaseBytes(body);
}

/** The body's bytes, in parts. */
export function bodyChunks(body: RequestBody): Iterable<Uint8Array> {
  return body instanceof PartedBody ? body.chunks() : [body];
}
