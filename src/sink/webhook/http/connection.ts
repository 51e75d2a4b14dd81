// One connection to a receiver: one request after the other, each with its answer.

import { closeSync, openSync } from "node:fs";
import type { Socket, SocketHandler } from "bun";
import { PartedBody, type RequestBody } from "../../format/values/message-body.ts";
import { failureCode } from "../failure-code.ts";
import type { Endpoint } from "./endpoint.ts";
import { ResponseReader, type ResponseState } from "./response-reader.ts";

export interface Answer {
  readonly status: number;
  readonly retryAfter: string | null;
}

export class NoAnswer extends Error {
  constructor(
    /** The system's or the TLS library's word for why. */
    readonly code: string,
    /** The connection had brought an answer before, and nothing of this one: the receiver may have closed it before it had the request. */
    readonly isStale: boolean,
  ) {
    super(code);
  }
}

/** The code where what came is no answer. */
export const notHttp = "EBADMSG";

interface Exchange {
  readonly reader: ResponseReader;
  state: ResponseState;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

type HttpSocket = Socket<HttpConnection>;

/** Up to so many bytes of head and body go out in one piece. */
const joinedBytes = 64 * 1024;
const joined = Buffer.allocUnsafe(joinedBytes);

/** How long a receiver has for its side of a TLS handshake, whoever waits. */
const handshakeSeconds = 60;

export class HttpConnection {
  /** By a monotonic clock: since when there is nothing to do. */
  idleSinceMs = 0;
  readonly #opened = Promise.withResolvers<void>();
  #socket: HttpSocket | null = null;
  #isEnded = false;
  #exchange: Exchange | null = null;
  /** What of the request is not on its way: the rest of a piece, and the pieces behind it. */
  #piece: Uint8Array | null = null;
  #pieces: Iterator<Uint8Array> | null = null;
  #hasAnswered = false;

  /** Begins to connect. `ended` is called when it takes no request any more. */
  constructor(
    readonly endpoint: Endpoint,
    private readonly ended: (connection: HttpConnection) => void,
  ) {
    const { address, port, tlsName } = endpoint;
    const tls = tlsName === null ? null : { tls: { serverName: tlsName } };
    const socket = tls ? HttpConnection.#tlsHandlers : HttpConnection.#plainHandlers;
    const connecting = Bun.connect({ hostname: address, port, data: this, socket, ...tls });
    connecting.catch((error: unknown) => this.#end(connectFailure(error)));
    this.opened.catch(() => undefined);
  }

  static readonly #handlers: SocketHandler<HttpConnection> = {
    data: (socket, bytes) => socket.data.#receive(socket, bytes),
    drain: (socket) => socket.data.#sendOn(),
    end: (socket) => socket.data.#lose("ECONNRESET"),
    error: (socket, error) => socket.data.#lose(failureCode(error)),
    close: (socket, error) => socket.data.#lose(error ? failureCode(error) : "ECONNRESET"),
    timeout: (socket) => void socket.terminate(),
  };
  static readonly #plainHandlers: SocketHandler<HttpConnection> = {
    ...HttpConnection.#handlers,
    open: (socket) => {
      socket.data.#connected(socket);
      socket.data.#opened.resolve();
    },
  };
  static readonly #tlsHandlers: SocketHandler<HttpConnection> = {
    ...HttpConnection.#handlers,
    open: (socket) => {
      socket.timeout(handshakeSeconds);
      socket.data.#connected(socket);
    },
    handshake: (socket, isTrusted, error) => {
      socket.timeout(0);
      if (isTrusted) socket.data.#opened.resolve();
      else socket.data.#end(failureCode(error));
    },
  };

  /** It can take a request: with TLS, the certificate was checked. Throws `NoAnswer`. */
  get opened(): Promise<void> {
    return this.#opened.promise;
  }

  /** The system tries to reach the address, which nothing ends but its own bound. */
  get isConnecting(): boolean {
    return this.#socket === null && !this.#isEnded;
  }

  /** Of one that was opened: it can take the next request. */
  get isUsable(): boolean {
    return !this.#isEnded && this.#exchange === null;
  }

  /**
   * Sends one request and reads its answer, which stands once its head is there; one that says that the receiver has it (2xx) stands
   * once the body is out as well. Throws `NoAnswer`, and the reason of `stop`. `head`: one character to a byte. The body is not read any
   * more when it returns.
   */
  exchange(head: string, body: RequestBody): Promise<Answer> {
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    if (this.#isEnded) reject(new NoAnswer("ECONNRESET", this.#hasAnswered));
    else {
      this.#exchange = { reader: new ResponseReader(), state: "unfinished", resolve, reject };
      try {
        this.#send(head, body);
      } catch (error) {
        this.#end(failureCode(error), error);
      }
    }
    return promise;
  }

  /** Breaks off what is under way, for this reason, and the connection with it. */
  stop(reason: unknown): void {
    this.#lose("ECONNABORTED", reason);
  }

  /** Leaves in order; nothing is under way. */
  close(): void {
    const socket = this.#socket;
    if (socket === null || this.#isEnded) return;
    this.#isEnded = true;
    // With TLS, `end` goes on reading until the receiver has closed its side as well.
    if (this.endpoint.tlsName === null) socket.end();
    else socket.terminate();
    this.ended(this);
  }

  #connected(socket: HttpSocket): void {
    if (this.#isEnded) socket.terminate();
    else this.#socket = socket;
  }

  #send(head: string, body: RequestBody): void {
    if (body instanceof Uint8Array && body.length + head.length <= joinedBytes) {
      joined.write(head, "latin1");
      joined.set(body, head.length);
      const all = joined.subarray(0, head.length + body.length);
      const sent = this.#write(all);
      if (sent < all.length) this.#piece = new Uint8Array(all.subarray(sent));
    } else {
      this.#pieces = pieces(head, body);
      this.#sendOn();
    }
  }

  /** Sends as much as the connection takes now. */
  #sendOn(): void {
    for (let piece = this.#nextPiece(); piece !== null; piece = this.#nextPiece()) {
      const sent = this.#write(piece);
      this.#piece = sent < piece.length ? piece.subarray(sent) : null;
      if (this.#piece) return;
    }
    this.#finish();
  }

  #nextPiece(): Uint8Array | null {
    if (this.#isEnded) return null;
    if (this.#piece) return this.#piece;
    const next = this.#pieces?.next();
    if (next && !next.done) return next.value;
    this.#pieces = null;
    return null;
  }

  #write(bytes: Uint8Array): number {
    return Math.max(0, this.#socket?.write(bytes) ?? 0);
  }

  #receive(socket: HttpSocket, bytes: Uint8Array): void {
    const exchange = this.#exchange;
    // What comes when it was left is not read on and on, and what nobody has asked for must not count as the next request's answer.
    if (this.#isEnded) socket.terminate();
    else if (!exchange) this.#end(notHttp);
    else {
      exchange.state = exchange.state === "unfinished" ? exchange.reader.take(bytes) : "cut";
      this.#finish();
    }
  }

  /** Settles the exchange once there is nothing to wait for. */
  #finish(): void {
    const exchange = this.#exchange;
    if (!exchange || exchange.state === "unfinished") return;
    const { state, reader } = exchange;
    if (state === "faulty" || !reader.head) return void this.#end(notHttp);
    const { status, retryAfter } = reader.head;
    const isSent = this.#piece === null && this.#pieces === null;
    // A receiver may refuse what it has not read (RFC 9112, section 9.5); it cannot have taken it.
    if (!isSent && status < 300) return;
    this.#exchange = null;
    this.#hasAnswered = true;
    if (state === "cut" || !isSent) this.#end("ECONNABORTED");
    else if (state === "closing") this.close();
    exchange.resolve({ status, retryAfter });
  }

  /** Nothing more comes. An answer whose head is there stands. */
  #lose(code: string, reason?: unknown): void {
    if (this.#exchange?.reader.head) {
      this.#exchange.state = "cut";
      this.#finish();
    }
    this.#end(code, reason);
  }

  /** What waits for an answer, or for the connection, gets `reason`. */
  #end(code: string, reason?: unknown): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    const exchange = this.#exchange;
    this.#exchange = null;
    this.#piece = null;
    this.#pieces = null;
    const isStale = this.#hasAnswered && (exchange?.reader.isUntouched ?? false);
    const error = reason ?? new NoAnswer(code, isStale);
    this.#opened.reject(error);
    exchange?.reject(error);
    this.#socket?.terminate();
    this.ended(this);
  }
}

function* pieces(head: string, body: RequestBody): Generator<Uint8Array> {
  yield Buffer.from(head, "latin1");
  yield* body instanceof PartedBody ? body.passing() : [body];
}

/** Bun takes a process without a free file descriptor for a receiver that refuses. */
function connectFailure(error: unknown): string {
  try {
    closeSync(openSync("/dev/null", "r"));
    return failureCode(error);
  } catch (own) {
    return failureCode(own);
  }
}
