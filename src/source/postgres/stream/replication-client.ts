// The only file that uses pg-logical-replication. The library connects, starts the stream and sends feedback on
// request. The socket's bytes go to copy-both-reader.ts, past the library and pg, which would make several objects and
// a string of each message. What the library does by itself and must not do is switched off here:
// - Its timer would acknowledge what was received, not what is durable: `timeoutSeconds: 0`.
// - Its `acknowledge(x)` sends x + 1, which would skip a transaction whose commit record starts at the end of the one before:
//   `sendFeedback` subtracts one.
// - An exception of a handler or plugin gets lost or is fatal: ours report the failure to `onFailure` and never throw.
// https://www.postgresql.org/docs/current/protocol-replication.html

import { Socket as TcpSocket } from "node:net";
import type { Duplex } from "node:stream";
import { type Client, type ClientConfig, type Connection, escapeIdentifier, escapeLiteral } from "pg";
import { LogicalReplicationService } from "pg-logical-replication";
import { AbstractPlugin } from "pg-logical-replication/dist/output-plugins/abstract.plugin.js";
import type { TupleForm } from "../../../change/change-batch.ts";
import { formatLsn, type Lsn, lsn } from "../../../change/lsn.ts";
import { FlowControl, type PausableSocket } from "../../../connection/copy/flow-control.ts";
import { liftTransactionTimeout } from "../../../connection/postgres-client.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { releaseBytes } from "../../../memory/release-bytes.ts";
import { formatLog, readLog } from "../slot/source-log.ts";
import { CopyBothReader } from "./copy-both-reader.ts";
import { ValuePacker } from "./value-packer.ts";

export interface ReplicationHandlers {
  /** One pgoutput message, `bytes[at, end)`. The memory is reused after the call. */
  onMessage(bytes: Buffer, at: number, end: number): void;
  /** A large message, in memory that the handler may keep. See copy-both-reader.ts. */
  onLargeMessage(bytes: Buffer, at: number, end: number): void;
  /** Bytes of an xid between the tag of the next message and the rest of it. */
  xidBytes(): number;
  /** Bytes came, maybe of an incomplete message. */
  onBytes(): void;
  /** The server's log ends at `walEnd`, and everything before it has been sent. */
  onKeepalive(walEnd: Lsn, replyRequested: boolean): void;
  /** The stream has ended. Called once. */
  onFailure(error: unknown): void;
}

export interface ReplicationRequest {
  readonly slot: string;
  readonly publications: readonly string[];
  readonly startLsn: Lsn;
  readonly form: TupleForm;
  /** The server sends large transactions before their commit. */
  readonly takesInProgress?: boolean;
  /** The log that `startLsn` is an address in: meanwhile another server may answer. Undefined: not known. */
  readonly log?: string | undefined;
}

export interface StartBounds {
  readonly signal: AbortSignal;
  /** From the end of the login to the start of the stream. The login has a timeout of its own. */
  readonly timeoutMs?: number;
}

/**
 * The server only looks up its slot before it answers: a longer silence means a network that accepts bytes and delivers
 * none.
 */
const startTimeoutMs = 20_000;

/** The socket below a client. */
interface Socket extends PausableSocket {
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

  /** Never called, because no stream data reaches the library. */
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
    // A walsender decodes within transactions, which last as long as their changes are read.
    await liftTransactionTimeout(client);
    this.#takeOver(client);
    return client.query(
      `START_REPLICATION SLOT ${escapeIdentifier(slot)} LOGICAL ${formatLsn(startLsn)} (${options.join(", ")})`,
    );
  }

  /** Replaces pg's listener by `onChunk`, before the first byte of the answer. */
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
  readonly #flow = new FlowControl(() => this.#stream ?? null);

  private constructor(
    private readonly service: LogicalReplicationService,
    private readonly handlers: ReplicationHandlers,
  ) {}

  /**
   * Connects and starts the stream; returns when the server has begun to send. Throws the server's error, a timeout
   * error, or `signal.reason`.
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
      request.form === "text" ? new ValuePacker(handlers.xidBytes()) : null,
    );
    const plugin = new RawPlugin(request, (chunk, pgListener) => {
      passOn = pgListener;
      handlers.onBytes();
      const { length } = chunk;
      client.#guard(() => reader.push(chunk));
      // Everything that is kept of the chunk has been copied by now.
      releaseBytes(chunk);
      if (!client.#closed) client.#flow.afterChunk(length);
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

  /** Reports that everything before `durable` is durable. `ping` asks the server to answer at once. */
  sendFeedback(durable: Lsn, ping: boolean): void {
    if (this.#closed || durable === 0n) return;
    void this.service.acknowledge(formatLsn(lsn(durable - 1n)), ping);
  }

  /** Has `watcher` watch the connection; null: the connection is gone. */
  watch(watcher: (client: Client) => Disposable): Disposable | null {
    const client = this.#client;
    return client && !this.#closed ? watcher(client) : null;
  }

  pause(): void {
    this.#flow.pause();
  }

  resume(): void {
    this.#flow.resume();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    await this.#stopService();
  }

  // library edge: the client is private too.
  get #client(): Client | null {
    return (this.service as unknown as { _client: Client | null })._client;
  }

  // library edge: the connection is private, and back-pressure must reach the socket below it.
  get #connection(): Connection | null {
    return (this.service as unknown as { _connection: Connection | null })._connection;
  }

  get #stream(): Socket | undefined {
    return (this.#connection as unknown as { stream: Socket } | null)?.stream;
  }

  async #stopService(): Promise<void> {
    this.#flow[Symbol.dispose]();
    const client = this.#client;
    // A clean end would wait for a server that may be gone, or for a paused socket.
    this.#stream?.destroy();
    await this.service.destroy().catch(() => {});
    // The library removes its listeners; a late error of the socket must not become an uncaught one.
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
  /** Why it was broken off; null: it was not. */
  readonly reason: unknown;
  breakOff(reason: unknown): void;
}

/**
 * The library gives out its client only once that is connected. We make the socket, so that we can break it at any
 * time.
 */
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
