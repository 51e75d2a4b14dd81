// The one place that touches pg-logical-replication. The library connects, starts the stream and sends feedback when asked;
// the socket's bytes are read by copy-both-reader.ts, past the library and pg, which would make several objects and a string
// of each message. Everything that the library does by itself and must not do is switched off here:
// - Its timer would acknowledge what was received, not what is durable: `timeoutSeconds: 0`.
// - Its `acknowledge(x)` sends x + 1, and a transaction whose commit record starts at the end of the one before would be
//   skipped: `sendFeedback` takes one off.
// - A handler or plugin that throws is lost or fatal: ours hand the failure to `onFailure` and never throw.
// https://www.postgresql.org/docs/current/protocol-replication.html

import { Socket as TcpSocket } from "node:net";
import type { Duplex } from "node:stream";
import { type Client, type ClientConfig, type Connection, escapeIdentifier, escapeLiteral } from "pg";
import { LogicalReplicationService } from "pg-logical-replication";
import { AbstractPlugin } from "pg-logical-replication/dist/output-plugins/abstract.plugin.js";
import type { TupleForm } from "../../../change/change-batch.ts";
import { formatLsn, type Lsn, lsn } from "../../../change/lsn.ts";
import { releaseBytes } from "../../../change/release-bytes.ts";
import { liftTransactionTimeout } from "../../../connection/postgres-client.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { formatLog, readLog } from "../slot/source-log.ts";
import { CopyBothReader } from "./copy-both-reader.ts";
import { SocketValve, type ValvedSocket } from "./socket-valve.ts";
import { ValuePacker } from "./value-packer.ts";

export interface ReplicationHandlers {
  /** One pgoutput message, `bytes[at, end)`: memory that is used again. */
  onMessage(bytes: Buffer, at: number, end: number): void;
  /** A large one: memory that is the handler's own. See copy-both-reader.ts. */
  onLargeMessage(bytes: Buffer, at: number, end: number): void;
  /** Bytes have come: of a message whose end may take its time. */
  onBytes(): void;
  /** The server's log ends here, and all before it has been sent. */
  onKeepalive(walEnd: Lsn, replyRequested: boolean): void;
  /** The stream is over. Called once. */
  onFailure(error: unknown): void;
}

export interface ReplicationRequest {
  readonly slot: string;
  readonly publications: readonly string[];
  readonly startLsn: Lsn;
  readonly form: TupleForm;
  /** Large transactions are sent while they are in progress. */
  readonly takesInProgress?: boolean;
  /** The log that `startLsn` is an address in; another server may answer by now. Undefined: it is not known. */
  readonly log?: string | undefined;
}

export interface StartBounds {
  readonly signal: AbortSignal;
  /** From the login's end to the start of the stream. The login has a bound of its own. */
  readonly timeoutMs?: number;
}

/** The server only looks its slot up before it answers: longer than this is a network that takes bytes and passes none. */
const startTimeoutMs = 20_000;

/** The socket below a client. */
interface Socket extends ValvedSocket {
  destroy(): void;
  listeners(event: "data"): ((chunk: Buffer) => void)[];
  on(event: "data", listener: (chunk: Buffer) => void): void;
  removeListener(event: "data", listener: (chunk: Buffer) => void): void;
}

class RawPlugin extends AbstractPlugin<ReplicationRequest> {
  constructor(
    request: ReplicationRequest,
    private readonly onChunk: (chunk: Buffer, passOn: (bytes: Buffer) => void) => void,
  ) {
    super(request);
  }

  get name(): string {
    return "pgoutput";
  }

  /** Never called: no stream data reaches the library. */
  override parse(): void {}

  // library edge: the base class declares `any`.
  override async start(client: Client): Promise<unknown> {
    const { slot, publications, startLsn, form, log, takesInProgress } = this.options;
    if (log !== undefined && formatLog(await readLog(client)) !== log) {
      throw new MillraceError(
        "source_connection_lost",
        "Another server answers than the one that was looked at.",
      );
    }
    const names = publications.map(escapeIdentifier).join(",");
    const protocol = takesInProgress ? ["proto_version '2'", "streaming 'on'"] : ["proto_version '1'"];
    const options = [...protocol, `publication_names ${escapeLiteral(names)}`, "messages 'true'"];
    if (form === "binary") options.push("binary 'true'");
    // Decoding is done in transactions, which last as long as their changes are read.
    await liftTransactionTimeout(client);
    this.#takeOver(client);
    return client.query(
      `START_REPLICATION SLOT ${escapeIdentifier(slot)} LOGICAL ${formatLsn(startLsn)} (${options.join(", ")})`,
    );
  }

  /** Puts `onChunk` in the place of pg's listener, before the first byte of the answer. */
  #takeOver(client: Client): void {
    // library edge: pg does not type the connection below a client.
    const { stream } = (client as unknown as { connection: { stream: Socket } }).connection;
    const [own, ...others] = stream.listeners("data");
    if (!own || others.length > 0) throw new Error("pg listens to its socket in another way than it did");
    stream.removeListener("data", own);
    stream.on("data", (chunk) => this.onChunk(chunk, own));
  }
}

export class ReplicationClient implements AsyncDisposable {
  #closed = false;
  readonly #valve = new SocketValve(() => this.#stream ?? null);

  private constructor(
    private readonly service: LogicalReplicationService,
    private readonly handlers: ReplicationHandlers,
  ) {}

  /**
   * Connects and starts the stream; returns when the server has begun to send. Throws what the server says, an error
   * that tells of a time-out, or `signal.reason`.
   */
  static async start(
    options: ClientConfig,
    request: ReplicationRequest,
    handlers: ReplicationHandlers,
    { signal, timeoutMs = startTimeoutMs }: StartBounds,
  ): Promise<ReplicationClient> {
    signal.throwIfAborted();
    const guarded = breakable(options);
    const service = new LogicalReplicationService(guarded.options, {
      acknowledge: { auto: false, timeoutSeconds: 0 },
      flowControl: { enabled: false },
    });
    const client = new ReplicationClient(service, handlers);
    service.on("error", (error: unknown) => client.#fail(error));
    let passOn: (bytes: Buffer) => void = () => {};
    const reader = new CopyBothReader({ ...handlers, onOther: (bytes) => passOn(bytes) }, () =>
      request.form === "text" ? new ValuePacker() : null,
    );
    const plugin = new RawPlugin(request, (chunk, pgListener) => {
      passOn = pgListener;
      handlers.onBytes();
      const { length } = chunk;
      client.#guard(() => reader.push(chunk));
      // All that is kept of it is copied by now.
      releaseBytes(chunk);
      if (!client.#closed) client.#valve.afterChunk(length);
    });
    const started = new Promise<void>((resolve) => service.once("start", () => resolve()));
    const ended = service.subscribe(plugin, request.slot, formatLsn(request.startLsn)).then(
      () => new MillraceError("source_connection_lost", "The server ended the replication stream."),
      (error: unknown) => error,
    );
    const onAbort = () => guarded.breakOff(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    const timer = setTimeout(
      () => guarded.breakOff(new Error("the start of the stream timed out")),
      (options.connectionTimeoutMillis ?? 0) + timeoutMs,
    );
    const failedFirst = await Promise.race([started.then(() => null), ended.then((error) => ({ error }))]);
    signal.removeEventListener("abort", onAbort);
    clearTimeout(timer);
    if (failedFirst !== null) {
      client.#closed = true;
      await client.#stopService();
      throw guarded.reason ?? failedFirst.error;
    }
    void ended.then((error) => client.#fail(error));
    return client;
  }

  /** Everything before `durable` is durable. `ping` asks the server to answer at once. */
  sendFeedback(durable: Lsn, ping: boolean): void {
    if (this.#closed || durable === 0n) return;
    void this.service.acknowledge(formatLsn(lsn(durable - 1n)), ping);
  }

  /** Lets `watcher` watch the connection, unless that is gone. */
  watch(watcher: (client: Client) => Disposable): Disposable | null {
    const client = this.#client;
    return client && !this.#closed ? watcher(client) : null;
  }

  pause(): void {
    this.#valve.hold();
  }

  resume(): void {
    this.#valve.release();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    await this.#stopService();
  }

  // library edge: private as well.
  get #client(): Client | null {
    return (this.service as unknown as { _client: Client | null })._client;
  }

  // library edge: the connection is private, and the socket below it is where back-pressure must reach.
  get #connection(): Connection | null {
    return (this.service as unknown as { _connection: Connection | null })._connection;
  }

  get #stream(): Socket | undefined {
    return (this.#connection as unknown as { stream: Socket } | null)?.stream;
  }

  async #stopService(): Promise<void> {
    this.#valve[Symbol.dispose]();
    const client = this.#client;
    // A clean goodbye would wait for a server that may be gone, or for a socket that is paused.
    this.#stream?.destroy();
    await this.service.destroy().catch(() => {});
    // The library takes its listeners off; what the socket still says must not be an uncaught error.
    client?.on("error", () => {});
  }

  #guard(action: () => void): void {
    if (this.#closed) return;
    try {
      action();
    } catch (error) {
      this.#fail(error);
    }
  }

  #fail(error: unknown): void {
    if (this.#closed) return;
    this.#closed = true;
    this.handlers.onFailure(error);
    void this.#stopService();
  }
}

interface Breakable {
  readonly options: ClientConfig;
  /** What it was broken off with. */
  readonly reason: unknown;
  breakOff(reason: unknown): void;
}

/** The library gives its client out only when that is connected: the socket is ours from the beginning. */
function breakable(options: ClientConfig): Breakable {
  let socket: Duplex | null = null;
  let brokenOff: { readonly reason: unknown } | null = null;
  return {
    options: {
      ...options,
      stream: () => {
        socket = options.stream?.() ?? new TcpSocket();
        return socket;
      },
    },
    get reason() {
      return brokenOff?.reason ?? null;
    },
    breakOff: (reason) => {
      brokenOff ??= { reason };
      socket?.destroy();
    },
  };
}
