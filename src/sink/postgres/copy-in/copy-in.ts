// Writes bytes to COPY FROM STDIN without copying them. When a write has returned, nothing refers to its bytes any more.
// https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-COPY

import type { Client, Connection, Submittable } from "pg";
import { destroyClient } from "../../../connection/postgres-client.ts";

/** PGCOPY signature, no flags, no header extension. */
export const binaryHeader = Buffer.from([
  0x50, 0x47, 0x43, 0x4f, 0x50, 0x59, 0x0a, 0xff, 0x0d, 0x0a, 0x00, 0, 0, 0, 0, 0, 0, 0, 0,
]);
export const binaryTrailer = Buffer.from([0xff, 0xff]);

const copyData = 0x64;
/** Type and length of a message. */
const headerBytes = 5;
/** A socket copies what it cannot send at once: it is given no more than this, which it sends in a few calls. */
const writtenAtOnce = 128 * 1024;
/** A server that has refused the COPY still reads the rest. If the rest takes longer than this, nobody reads, and the connection is ended. */
const graceMs = 3_000;

/** The parts of pg's connection that a COPY needs. pg's types lack them. */
interface CopyConnection {
  readonly stream: { write(bytes: Uint8Array, written?: () => void): boolean };
  query(sql: string): void;
  endCopyFrom(): void;
  sendCopyFail(message: string): void;
}

/**
 * Runs `sql`, a COPY … FROM STDIN, with the chunks. Returns the number of rows. A chunk's memory may be reused when the next chunk is asked
 * for. Throws pg's errors, or the error of the chunks: the COPY then fails too.
 */
export async function copyIn(
  client: Client,
  sql: string,
  chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
): Promise<number> {
  const copy = new CopyIn(sql, () => destroyClient(client));
  client.query(copy);
  try {
    for await (const chunk of chunks) if (!(await copy.write(chunk))) break;
  } catch (error) {
    // COPY must not succeed with a part of the rows.
    await copy.fail(error instanceof Error ? error.message : String(error));
    throw error;
  }
  return await copy.end();
}

class CopyIn implements Submittable {
  #connection: CopyConnection | null = null;
  readonly #begun = Promise.withResolvers<void>();
  readonly #over = Promise.withResolvers<void>();
  #isOver = false;
  #failure: { readonly error: unknown } | null = null;
  #rows = 0;
  #isWriting = false;
  #grace: ReturnType<typeof setTimeout> | null = null;

  constructor(
    private readonly sql: string,
    private readonly breakOff: () => void,
  ) {}

  /**
   * Resolves when the socket has sent the chunk. Returns whether the server takes more. It must not resolve earlier, even if the server takes
   * no more: the socket would send memory that is used for something else by then.
   */
  async write(chunk: Uint8Array): Promise<boolean> {
    await this.#begun.promise;
    for (let at = 0; at < chunk.length && !this.#isOver; at += writtenAtOnce) {
      const isWhole = chunk.length <= writtenAtOnce;
      await this.#send(isWhole ? chunk : chunk.subarray(at, at + writtenAtOnce));
    }
    return !this.#isOver;
  }

  /** Returns the number of rows. */
  async end(): Promise<number> {
    await this.#begun.promise;
    if (!this.#isOver) this.#connection?.endCopyFrom();
    await this.#over.promise;
    if (this.#failure) throw this.#failure.error;
    return this.#rows;
  }

  /** Makes the COPY fail. Resolves when the server has answered. */
  async fail(reason: string): Promise<void> {
    await this.#begun.promise;
    if (!this.#isOver) this.#connection?.sendCopyFail(reason);
    await this.#over.promise;
  }

  /** Called by pg when the connection is free. */
  submit(connection: Connection): void {
    // library edge: see `CopyConnection`.
    this.#connection = connection as unknown as CopyConnection;
    this.#connection.query(this.sql);
  }

  handleCopyInResponse(): void {
    this.#begun.resolve();
  }

  handleCommandComplete({ text }: { readonly text: string }): void {
    this.#rows = Number(/^COPY (\d+)/.exec(text)?.[1] ?? 0);
  }

  handleReadyForQuery(): void {
    this.#finish();
  }

  /** An error of the server or of the connection. The server discards what is still being written. */
  handleError(error: unknown): void {
    this.#failure ??= { error };
    this.#finish();
    // If the server has ended the session behind a proxy that keeps the connection open, the write would never end.
    if (this.#isWriting) this.#grace ??= setTimeout(this.breakOff, graceMs);
  }

  async #send(bytes: Uint8Array): Promise<void> {
    const header = Buffer.allocUnsafe(headerBytes);
    header[0] = copyData;
    header.writeUInt32BE(bytes.length + headerBytes - 1, 1);
    const written = Promise.withResolvers<void>();
    this.#isWriting = true;
    this.#connection?.stream.write(header);
    this.#connection?.stream.write(bytes, () => written.resolve());
    await written.promise;
    this.#isWriting = false;
    if (this.#grace !== null) clearTimeout(this.#grace);
  }

  #finish(): void {
    this.#isOver = true;
    this.#begun.resolve();
    this.#over.resolve();
  }
}
