// Writes bytes to COPY FROM STDIN.
// https://www.postgresql.org/docs/current/sql-copy.html

import { once } from "node:events";
import { finished } from "node:stream/promises";
import type { Client } from "pg";
import { from as copyFrom } from "pg-copy-streams";

/** PGCOPY signature, no flags, no header extension. */
export const binaryHeader = Buffer.from([
  0x50, 0x47, 0x43, 0x4f, 0x50, 0x59, 0x0a, 0xff, 0x0d, 0x0a, 0x00, 0, 0, 0, 0, 0, 0, 0, 0,
]);
export const binaryTrailer = Buffer.from([0xff, 0xff]);

const writtenAtOnce = 1024 * 1024;

/** Runs `sql`, a COPY … FROM STDIN, over the chunks; returns the number of rows. The chunks are free for use then. */
export async function copyIn(
  client: Client,
  sql: string,
  chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
): Promise<number> {
  const stream = client.query(copyFrom(sql, { highWaterMark: 1024 * 1024 }));
  const done = finished(stream);
  done.catch(() => {});
  try {
    for await (const chunk of chunks) {
      // A socket copies what it cannot send at once: of a large value, only so much is handed to it.
      for (let at = 0; at < chunk.length && !stream.destroyed && !stream.errored; at += writtenAtOnce) {
        const part = chunk.length > writtenAtOnce ? chunk.subarray(at, at + writtenAtOnce) : chunk;
        if (!stream.write(part)) await Promise.race([once(stream, "drain"), done]);
      }
      if (stream.destroyed || stream.errored) break;
    }
    stream.end();
  } catch (error) {
    // The source of the chunks failed: COPY must fail too, and not end as if all had come.
    stream.destroy(error instanceof Error ? error : new Error(String(error)));
    await done.catch(() => {});
    throw error;
  }
  await done;
  return stream.rowCount;
}
