// Lets the bytes of a socket through, or leaves them to the kernel: while nobody can take them, and for the rests of gathering.ts.

import { Gathering } from "./gathering.ts";

/** The socket below a client of pg, or a stream that stands for one. */
export interface ValvedSocket {
  /** Bytes that have been read and not been handed out. */
  readonly readableLength: number;
  /** Of a connected TCP socket. */
  readonly remoteAddress?: string | undefined;
  pause(): void;
  resume(): void;
}

/** What Bun's socket reads with. */
interface Handle {
  pause?(): void;
  resume?(): void;
}

export class SocketValve implements Disposable {
  readonly #gathering = new Gathering();
  #isTcp: boolean | null = null;
  #rest: ReturnType<typeof setTimeout> | null = null;
  #isHeld = false;

  /** `socket`: null while there is none. */
  constructor(private readonly socket: () => ValvedSocket | null) {}

  /** No more chunks until `release`. */
  hold(): void {
    this.#isHeld = true;
    this.#close();
  }

  release(): void {
    this.#isHeld = false;
    if (this.#rest === null) this.#open();
  }

  /** To be called when a chunk of `bytes` has been dealt with: the socket may rest for some milliseconds. */
  afterChunk(bytes: number): void {
    const socket = this.socket();
    // What has been read already comes in as many chunks as it came in: that says nothing of the sender.
    if (this.#isHeld || this.#rest !== null || !socket || socket.readableLength > 0) return;
    // A Unix socket holds some hundred messages and no more: its sender would wait through most of a rest.
    this.#isTcp ??= socket.remoteAddress !== undefined;
    if (!this.#isTcp) return;
    const restMs = this.#gathering.restMs(bytes, performance.now());
    if (restMs === 0) return;
    this.#close();
    this.#rest = setTimeout(() => {
      this.#rest = null;
      if (!this.#isHeld) this.#open();
    }, restMs);
  }

  /** Leaves the socket open. */
  [Symbol.dispose](): void {
    if (this.#rest !== null) clearTimeout(this.#rest);
    this.#rest = null;
    this.release();
  }

  /**
   * A paused stream goes on to read, message by message, until 64 kB lie in it: what reads for it has to pause as well, and a moment
   * later, for the stream asks it once more after each chunk.
   */
  #close(): void {
    this.socket()?.pause();
    setImmediate(() => {
      if (this.#isClosed) this.#handle?.pause?.();
    });
  }

  #open(): void {
    this.#handle?.resume?.();
    this.socket()?.resume();
  }

  get #isClosed(): boolean {
    return this.#isHeld || this.#rest !== null;
  }

  // library edge: Bun's socket has it under this name, as Node's has; other streams have none.
  get #handle(): Handle | null | undefined {
    return (this.socket() as { readonly _handle?: Handle | null } | null)?._handle;
  }
}
