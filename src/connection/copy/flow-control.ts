// Pauses and resumes the socket of a stream: for back-pressure, and for the short pauses of read-coalescer.ts.

import { ReadCoalescer } from "./read-coalescer.ts";

/** The socket below a pg client, or a stream that replaces it. */
export interface PausableSocket {
  /** Bytes that were read from the kernel and not handed out yet. */
  readonly readableLength: number;
  /** Set on a connected TCP socket. */
  readonly remoteAddress?: string | undefined;
  pause(): void;
  resume(): void;
}

/** What Bun's socket reads from. */
interface Handle {
  pause?(): void;
  resume?(): void;
}

export class FlowControl implements Disposable {
  readonly #coalescer = new ReadCoalescer();
  #isTcp: boolean | null = null;
  #shortPause: ReturnType<typeof setTimeout> | null = null;
  #isPaused = false;

  /** `socket`: null while there is none. */
  constructor(private readonly socket: () => PausableSocket | null) {}

  /** Stops the chunks until `resume`. */
  pause(): void {
    this.#isPaused = true;
    this.#stopReading();
  }

  resume(): void {
    this.#isPaused = false;
    if (this.#shortPause === null) this.#startReading();
  }

  /** To be called when a chunk of `bytes` has been handled. May pause the socket for some milliseconds. */
  afterChunk(bytes: number): void {
    const socket = this.socket();
    // What has been read already arrives in the chunks in which it was read: their size says nothing about the sender.
    if (this.#isPaused || this.#shortPause !== null || !socket || socket.readableLength > 0) return;
    // A Unix socket buffers a few hundred messages only: its sender would be blocked for most of a pause.
    this.#isTcp ??= socket.remoteAddress !== undefined;
    if (!this.#isTcp) return;
    const pauseMs = this.#coalescer.pauseMs(bytes, performance.now());
    if (pauseMs === 0) return;
    this.#stopReading();
    this.#shortPause = setTimeout(() => {
      this.#shortPause = null;
      if (!this.#isPaused) this.#startReading();
    }, pauseMs);
  }

  /** Leaves the socket flowing. */
  [Symbol.dispose](): void {
    if (this.#shortPause !== null) clearTimeout(this.#shortPause);
    this.#shortPause = null;
    this.resume();
  }

  /**
   * A paused stream goes on reading, message by message, until it has buffered 64 kB. So the handle it reads from is
   * paused too, and only a moment later, because the stream starts it once more after each chunk.
   */
  #stopReading(): void {
    this.socket()?.pause();
    setImmediate(() => {
      if (this.#isStopped) this.#handle?.pause?.();
    });
  }

  #startReading(): void {
    this.#handle?.resume?.();
    this.socket()?.resume();
  }

  get #isStopped(): boolean {
    return this.#isPaused || this.#shortPause !== null;
  }

  // library edge: Bun's socket has it under this name, as Node's does; other streams have none.
  get #handle(): Handle | null | undefined {
    return (this.socket() as { readonly _handle?: Handle | null } | null)?._handle;
  }
}
