// Runs a COPY TO STDOUT: the bytes of its rows in large chunks, past pg, which would make several objects of each row. What the rows
// lie in is copy-data-reader.ts's.
// https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-COPY

import type { Client, Connection, Submittable } from "pg";
import { SocketValve, type ValvedSocket } from "../stream/socket-valve.ts";
import { CopyDataReader } from "./copy-data-reader.ts";

/** The socket below a client. */
interface Socket extends ValvedSocket {
  listeners(event: "data"): ((chunk: Buffer) => void)[];
  on(event: "data", listener: (chunk: Buffer) => void): void;
  removeListener(event: "data", listener: (chunk: Buffer) => void): void;
}

/** Beyond so many bytes in blocks that nobody has taken the socket is left alone. */
const mostBytes = 512 * 1024;
/** For so long a reader that waits is kept waiting for a block to fill. */
const fillMs = 2;

/** Rows that have come so far. */
export interface RowCount {
  rows: number;
}

/**
 * A chunk is the reader's until it asks for the next one. `count` is kept up to date; the end of a binary copy counts as a row. Throws
 * what pg does. Left early, the connection can only be broken: the rows still come.
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
  readonly #valve = new SocketValve(() => this.#socket);
  #socket: Socket | null = null;
  /** pg's listener, and how it gets the socket back. */
  #passOn: (bytes: Buffer) => void = () => {};
  #giveBack: () => void = () => {};
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

  /** Null: all have been taken. The one before is given back. */
  async next(): Promise<Uint8Array | null> {
    this.#reader.giveBack();
    if (this.#reader.blockBytes === 0 && this.#end === null) {
      this.#waiting = Promise.withResolvers();
      if (this.#reader.restBytes > 0) this.#wakeSoon();
      await this.#waiting.promise;
    }
    // Rows that came before the failure are of no use.
    if (this.#end?.error) throw this.#end.error;
    const chunk = this.#reader.take();
    if (this.#isFull && this.#reader.blockBytes < mostBytes) {
      this.#isFull = false;
      this.#valve.release();
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

  /** Puts itself in the place of pg's listener, before the first byte of the answer. */
  #takeOver(socket: Socket): void {
    const [own, ...others] = socket.listeners("data");
    if (!own || others.length > 0) throw new Error("pg listens to its socket in another way than it did");
    const onChunk = (chunk: Buffer) => this.#onChunk(chunk);
    socket.removeListener("data", own);
    socket.on("data", onChunk);
    this.#socket = socket;
    this.#passOn = own;
    this.#giveBack = () => {
      socket.removeListener("data", onChunk);
      socket.on("data", own);
    };
  }

  #onChunk(chunk: Buffer): void {
    const { length } = chunk;
    this.#reader.push(chunk);
    if (this.#end) {
      // It came amid the chunk, and pg reads on where that ends.
      const header = this.#reader.takeHeader();
      if (header.length > 0) this.#passOn(header);
      return;
    }
    if (this.#reader.blockBytes > 0) this.#wake();
    else if (this.#waiting && this.#reader.restBytes > 0) this.#wakeSoon();
    if (this.#reader.blockBytes >= mostBytes) {
      this.#isFull = true;
      this.#valve.hold();
    } else {
      this.#valve.afterChunk(length);
    }
  }

  #wakeSoon(): void {
    this.#filling ??= setTimeout(() => this.#wake(), fillMs);
  }

  /** There is something for who waits, or the end: next time it waits for as long as ever. */
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
    this.#giveBack();
    this.#valve[Symbol.dispose]();
    this.#wake();
  }
}
