// Runs a COPY TO STDOUT and yields the bytes of its rows in large chunks, past pg, which would make several objects of
// each row. copy-data-reader.ts extracts the rows.
// https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-COPY

import type { Client, Connection, Submittable } from "pg";
import { CopyDataReader } from "./copy-data-reader.ts";
import { FlowControl, type PausableSocket } from "./flow-control.ts";

/** The socket below a client. */
interface Socket extends PausableSocket {
  listeners(event: "data"): ((chunk: Buffer) => void)[];
  on(event: "data", listener: (chunk: Buffer) => void): void;
  removeListener(event: "data", listener: (chunk: Buffer) => void): void;
}

/** The socket is paused while so many bytes of full blocks have not been taken. */
const maxBufferedBytes = 128 * 1024;
/** How long a waiting reader waits for a block to fill. */
const fillMs = 2;

/** Rows that have been read so far. */
export interface RowCount {
  rows: number;
}

/**
 * Each chunk is the reader's until it asks for the next one. `count` is kept up to date; the end of a binary copy
 * counts as a row. Throws what pg throws. After leaving the loop early, break the connection: the rows keep coming.
 */
export async function* copyOut(
  client: Client,
  sql: string,
  count: RowCount = { rows: 0 },
): AsyncGenerator<Uint8Array> {
  using copy = new CopyOut(sql);
  client.query(copy);
  for (let chunk = await copy.next(); chunk !== null; chunk = await copy.next()) {
    count.rows = copy.messages;
    yield chunk;
  }
}

class CopyOut implements Submittable, Disposable {
  readonly #reader = new CopyDataReader((bytes) => this.#passOn(bytes));
  readonly #flow = new FlowControl(() => this.#socket);
  #socket: Socket | null = null;
  /** pg's listener, and how to restore it. */
  #passOn: (bytes: Buffer) => void = () => {};
  #restoreListener: () => void = () => {};
  #end: { readonly error: unknown } | null = null;
  #waiting: PromiseWithResolvers<void> | null = null;
  #filling: ReturnType<typeof setTimeout> | null = null;
  #isFull = false;

  constructor(private readonly sql: string) {}

  get messages(): number {
    return this.#reader.messages;
  }

  /** Called by pg when the connection is free. */
  submit(connection: Connection): void {
    this.#takeOver((connection as unknown as { stream: Socket }).stream);
    connection.query(this.sql);
  }

  /** Null: all chunks have been taken. Frees the chunk before. */
  async next(): Promise<Uint8Array | null> {
    this.#reader.releaseTaken();
    if (this.#reader.blockBytes === 0 && this.#end === null) {
      this.#waiting = Promise.withResolvers();
      if (this.#reader.restBytes > 0) this.#wakeSoon();
      await this.#waiting.promise;
    }
    // The rows before a failure are useless.
    if (this.#end?.error) throw this.#end.error;
    const chunk = this.#reader.take();
    if (this.#isFull && this.#reader.blockBytes < maxBufferedBytes) {
      this.#isFull = false;
      this.#flow.resume();
    }
    return chunk;
  }

  handleError(error: unknown): void {
    this.#finish(error ?? new Error("COPY failed"));
  }

  handleCommandComplete(): void {}

  handleReadyForQuery(): void {
    this.#finish(null);
  }

  [Symbol.dispose](): void {
    this.#finish(new Error("the copy was left"));
  }

  /** Replaces pg's listener, before the first byte of the answer. */
  #takeOver(socket: Socket): void {
    const [own, ...others] = socket.listeners("data");
    if (!own || others.length > 0) throw new Error("pg listens to its socket in another way than it did");
    const onChunk = (chunk: Buffer) => this.#onChunk(chunk);
    socket.removeListener("data", own);
    socket.on("data", onChunk);
    this.#socket = socket;
    this.#passOn = own;
    this.#restoreListener = () => {
      socket.removeListener("data", onChunk);
      socket.on("data", own);
    };
  }

  #onChunk(chunk: Buffer): void {
    const { length } = chunk;
    this.#reader.push(chunk);
    if (this.#end) {
      // The copy ended within the chunk; pg reads on from there.
      const header = this.#reader.takeHeader();
      if (header.length > 0) this.#passOn(header);
      return;
    }
    if (this.#reader.blockBytes > 0) this.#wake();
    else if (this.#waiting && this.#reader.restBytes > 0) this.#wakeSoon();
    if (this.#reader.blockBytes >= maxBufferedBytes) {
      this.#isFull = true;
      this.#flow.pause();
    } else {
      this.#flow.afterChunk(length);
    }
  }

  #wakeSoon(): void {
    this.#filling ??= setTimeout(() => this.#wake(), fillMs);
  }

  /** Wakes the waiting reader, because there is a block, or the end. */
  #wake(): void {
    if (this.#filling !== null) clearTimeout(this.#filling);
    this.#filling = null;
    this.#waiting?.resolve();
    this.#waiting = null;
  }

  #finish(error: unknown): void {
    if (this.#end) return;
    this.#end = { error };
    this.#isFull = false;
    this.#restoreListener();
    this.#flow[Symbol.dispose]();
    this.#wake();
  }
}
