// One connection to a receiver. It sends one request after the other, and reads the answer to each.

import { closeSync, openSync } from "node:fs";
import type { Socket, SocketHandler } from "bun";
import { PartedBody, type RequestBody } from "../format/values/message-body.ts";
import type { Endpoint } from "./endpoint.ts";
import { failureCode } from "./failure-code.ts";
import { ResponseReader, type ResponseState } from "./response-reader.ts";

export interface Answer {
  readonly status: number;
  readonly retryAfter: string | null;
  readonly body: AnswerBody;
}

export interface AnswerBody {
  readonly type: string | null;
  readonly encoding: string | null;
  /** Its beginning, as it was sent; of a 2xx only where the target asks for bodies. */
  readonly bytes: Uint8Array;
  /** More belongs to it, or may: it was too long, the connection broke off, or its end cannot be told. */
  readonly isCut: boolean;
}

export class NoAnswer extends Error {
  constructor(
    /** The error code of the system or of the TLS library. */
    readonly code: string,
    /** The connection had answered before, and brought nothing of this answer: the receiver may have closed it before the request came. */
    readonly isStale: boolean,
  ) {
    super(code);
  }
}

/** The code for bytes that are no HTTP answer. */
export const notHttp = "EBADMSG";

interface Exchange {
  readonly reader: ResponseReader;
  state: ResponseState;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

type HttpSocket = Socket<HttpConnection>;

/** A head and body of up to so many bytes are sent in one piece. */
const joinedBytes = 64 * 1024;
const joined = Buffer.allocUnsafe(joinedBytes);

/** How long a receiver has for its side of a TLS handshake. */
const handshakeSeconds = 60;

export class HttpConnection {
  /** Since when it is idle, by a monotonic clock. */
  idleSinceMs = 0;
  readonly #opened = Promise.withResolvers<void>();
  #socket: HttpSocket | null = null;
  #isEnded = false;
  #exchange: Exchange | null = null;
  /** What of the request was not sent: the rest of a piece, and the pieces after it. */
  #piece: Uint8Array | null = null;
  #pieces: Iterator<Uint8Array> | null = null;
  #hasAnswered = false;

  /** Begins to connect. `ended` is called when it can take no request any more. */
  constructor(
    readonly endpoint: Endpoint,
    private readonly ended: (connection: HttpConnection) => void,
  ) {
    const { address, port, tlsName } = endpoint;
    const tls = tlsName === null ? null : { tls: { ...endpoint.tls, serverName: tlsName } };
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

  /** Resolves when it can take a request: with TLS, the certificate was checked. Rejects with `NoAnswer`. */
  get opened(): Promise<void> {
    return this.#opened.promise;
  }

  /** The system tries to reach the address. Only the system's own timeout ends that. */
  get isConnecting(): boolean {
    return this.#socket === null && !this.#isEnded;
  }

  /** It was opened, and can take the next request. */
  get isUsable(): boolean {
    return !this.#isEnded && this.#exchange === null;
  }

  /**
   * Sends one request and reads its answer. The answer counts once its head is there; a 2xx counts once the request's body was sent too.
   * Throws `NoAnswer`, and the reason of `stop`. `head`: one character to a byte. `answerBytes`: as `TargetOptions`. The body is not read any
   * more after the return.
   */
  exchange(head: string, body: RequestBody, answerBytes = 0): Promise<Answer> {
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    if (this.#isEnded) reject(new NoAnswer("ECONNRESET", this.#hasAnswered));
    else {
      this.#exchange = { reader: new ResponseReader(answerBytes), state: "unfinished", resolve, reject };
      try {
        this.#send(head, body);
      } catch (error) {
        this.#end(failureCode(error), error);
      }
    }
    return promise;
  }

  /** Aborts what is under way, for this reason, and closes the connection. */
  stop(reason: unknown): void {
    this.#lose("ECONNABORTED", reason);
  }

  /** Closes an idle connection in order. */
  close(): void {
    const socket = this.#socket;
    if (socket === null || this.#isEnded) return;
    this.#isEnded = true;
    // With TLS, `end` reads on until the receiver has closed its side too.
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
      const all = head.length + body.length;
      const sent = this.#write(joined, all);
      if (sent < all) this.#piece = new Uint8Array(joined.subarray(sent, all));
    } else {
      this.#pieces = pieces(head, body);
      this.#sendOn();
    }
  }

  /** Sends as much as the socket takes now. */
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

  #write(bytes: Uint8Array, length = bytes.length): number {
    return Math.max(0, this.#socket?.write(bytes, 0, length) ?? 0);
  }

  #receive(socket: HttpSocket, bytes: Uint8Array): void {
    const exchange = this.#exchange;
    // Bytes that nobody asked for must not count as the answer to the next request.
    if (this.#isEnded) socket.terminate();
    else if (!exchange) this.#end(notHttp);
    else {
      exchange.state = exchange.state === "unfinished" ? exchange.reader.take(bytes) : "cut";
      this.#finish();
    }
  }

  /** Settles the exchange when there is nothing left to wait for. */
  #finish(): void {
    const exchange = this.#exchange;
    if (!exchange || exchange.state === "unfinished") return;
    const { state, reader } = exchange;
    if (state === "faulty" || !reader.head) return void this.#end(notHttp);
    const { status, retryAfter, contentType, contentEncoding } = reader.head;
    const isSent = this.#piece === null && this.#pieces === null;
    // A receiver may refuse a request that it has not read (RFC 9112, section 9.5). It cannot have taken one.
    if (!isSent && status < 300) return;
    this.#exchange = null;
    this.#hasAnswered = true;
    if (state === "cut" || !isSent) this.#end("ECONNABORTED");
    else if (state === "closing") this.close();
    const { content: bytes, isContentCut: isCut } = reader;
    const body = { type: contentType, encoding: contentEncoding, bytes, isCut };
    exchange.resolve({ status, retryAfter, body });
  }

  /** Nothing more comes. An answer whose head is there counts. */
  #lose(code: string, reason?: unknown): void {
    if (this.#exchange?.reader.head) {
      this.#exchange.state = "cut";
      this.#finish();
    }
    this.#end(code, reason);
  }

  /** Whoever waits for an answer, or for the connection, gets `reason`. */
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

/** Bun reports ECONNREFUSED where the process has no free file descriptor. */
function connectFailure(error: unknown): string {
  try {
    closeSync(openSync("/dev/null", "r"));
    return failureCode(error);
  } catch (own) {
    return failureCode(own);
  }
}
