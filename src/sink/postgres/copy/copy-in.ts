// Writes bytes to COPY FROM STDIN, from where they lie: nothing keeps them behind the writer's back.
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
/** A socket copies what it cannot send at once: of a large value, only so much is handed to it. */
const writtenAtOnce = 1024 * 1024;
/** A server that refuses reads on, to its next query. For so long what is on its way may take; then nobody reads it any more. */
const graceMs = 3_000;

/** What of pg's connection a COPY needs; its types leave it out. */
interface CopyConnection {
  readonly stream: { write(bytes: Uint8Array, written?: () => void): boolean };
  query(sql: string): void;
  endCopyFrom(): void;
  sendCopyFail(message: string): void;
}

/**
 * Runs `sql`, a COPY … FROM STDIN, over the chunks; returns the number of rows. A chunk is free for use when the next one is asked for,
 * and all of them are when this returns. Throws what pg does; where the chunks fail, what they do, with the copy undone.
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
    // COPY must fail too, and not end as if all had come.
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
   * Resolves when the chunk has been handed on, with whether the server takes more. Not before, even if it takes no more: the socket would
   * send what the chunk's memory holds by then.
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

  /** Resolves when the server has done with it. */
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

  /** The server's, or the connection's: what is written still is read and left aside. */
  handleError(error: unknown): void {
    this.#failure ??= { error };
    this.#finish();
    // Unless it ends the session, and something in between holds on to the connection.
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
