// A stream of changes from one slot. It fills batches as messages arrive and hands them out on request, applies
// back-pressure to its socket, and reports on a timer what is durable.

import type { Client } from "pg";
import { BatchBuilder, emptyBatch } from "../../../change/batch-builder.ts";
import type { ChangeBatch } from "../../../change/change-batch.ts";
import type { Checkpoint } from "../../../change/checkpoint.ts";
import type { Lsn } from "../../../change/lsn.ts";
import type { Relation } from "../../../change/relation.ts";
import { isGivenUp } from "../../../errors/given-up.ts";
import { sharedInterval } from "../../../measure/shared-interval.ts";
import type { ChangeStream, StreamLag } from "../../change-stream.ts";
import type { Announced } from "../shapes/relation-description.ts";
import type { RelationRegistry } from "../shapes/relation-registry.ts";
import { BatchRelations } from "./batch-relations.ts";
import { collectForMs, feedbackIntervalMs, isHeartbeatDue, type StreamPace } from "./feedback.ts";
import { IdleAdvance } from "./idle-advance.ts";
import { LogEnd } from "./log-end.ts";
import { PgoutputDecoder } from "./pgoutput-decoder.ts";
import { ReplicationClient, type ReplicationRequest } from "./replication-client.ts";
import { ServerLiveness } from "./server-liveness.ts";
import { StandbyStatus } from "./standby-status.ts";
import { type StreamBounds, StreamBuffer } from "./stream-buffer.ts";
import { describeStreamError } from "./stream-failure.ts";

export interface PostgresStreamOptions {
  readonly client: Parameters<typeof ReplicationClient.start>[0];
  readonly request: ReplicationRequest;
  readonly checkpoint: Checkpoint;
  readonly registry: RelationRegistry;
  readonly walSenderTimeoutMs: number;
  /** Where the server's log ended before the stream began. What lies before it is the backlog. */
  readonly logEnd: Lsn;
  readonly bounds: StreamBounds;
  /** Completes relations from the catalog. */
  readonly describe: (announced: readonly Announced[]) => Promise<readonly Relation[]>;
  /** Resolves when what must not be lost, should the next batch be acknowledged, is durable. */
  readonly beforeHandOut: () => Promise<void>;
  readonly pace: StreamPace;
  /** Writes a heartbeat into the source's log. Never rejects. */
  readonly writeHeartbeat: () => Promise<void>;
  /**
   * Watches the walsender over another connection, and breaks the stream's where the walsender has nothing more to
   * send. Calls `works` whenever it finds that at work.
   */
  readonly watch: (client: Client, works: () => void) => Disposable;
  /** The shapes that hold from a shape marker on, by the marker's content and LSN. */
  readonly shapesAt: (marker: string, at: Lsn) => readonly Relation[];
  readonly signal: AbortSignal;
}

export class PostgresStream implements ChangeStream {
  readonly caughtUp: Promise<void>;
  readonly #catchUp = Promise.withResolvers<void>();
  readonly #decoder: PgoutputDecoder;
  readonly #buffer: StreamBuffer;
  #client: ReplicationClient | null = null;
  #ticking: Disposable | null = null;
  #failure: unknown = null;
  #wake: (() => void) | null = null;
  /** Runs while `next` collects more changes than there are. */
  #collecting: ReturnType<typeof setTimeout> | null = null;
  readonly #liveness: ServerLiveness;
  readonly #status: StandbyStatus;
  /** The reader has a batch that may not be written yet: it has not asked for the next one. */
  #isOut = false;
  /** The reader wants no more batches. */
  #isEnding = false;
  #isPaused = false;
  readonly #relations: BatchRelations;
  readonly #advance: IdleAdvance;
  readonly #log: LogEnd;
  /** When something of ours came, or a heartbeat was sent, and where the server's log ended then. */
  #activityAt = performance.now();
  #activityWalEnd: Lsn;

  private constructor(private readonly options: PostgresStreamOptions) {
    const { checkpoint, request, registry } = options;
    this.caughtUp = this.#catchUp.promise;
    this.#status = new StandbyStatus(checkpoint.resumeLsn, (durable, ping) =>
      this.#client?.sendFeedback(durable, ping),
    );
    this.#advance = new IdleAdvance(checkpoint.resumeLsn, options.pace, () => {
      if (this.#isIdleAdvance()) this.#notify();
    });
    this.#activityWalEnd = checkpoint.resumeLsn;
    this.#log = new LogEnd(checkpoint.resumeLsn, options.logEnd);
    const watch = (works: () => void) =>
      this.#client?.watch((client) => options.watch(client, works)) ?? null;
    this.#liveness = new ServerLiveness(options.walSenderTimeoutMs, watch);
    const builder = new BatchBuilder(request.form, checkpoint.resumeLsn);
    this.#decoder = new PgoutputDecoder(builder, request.form, checkpoint, registry, options.shapesAt);
    this.#buffer = new StreamBuffer(this.#decoder, request.form, options.bounds);
    this.#relations = new BatchRelations(registry, this.#buffer, options.describe);
  }

  static async start(options: PostgresStreamOptions): Promise<PostgresStream> {
    const stream = new PostgresStream(options);
    options.signal.addEventListener("abort", stream.#onAbort, { once: true });
    try {
      const { client, request, signal } = options;
      const handlers = {
        onMessage: (bytes: Buffer, at: number, end: number) => stream.#receive(bytes, at, end),
        onLargeMessage: (bytes: Buffer, at: number, end: number) => stream.#receiveLarge(bytes, at, end),
        xidBytes: () => (options.registry.isInBlock ? 4 : 0),
        onBytes: stream.#liveness.received,
        onKeepalive: (walEnd: Lsn, replyRequested: boolean) => stream.#keepalive(walEnd, replyRequested),
        onFailure: (error: unknown) => stream.#fail(describeStreamError(error)),
      };
      stream.#client = await ReplicationClient.start(client, request, handlers, { signal });
    } catch (error) {
      options.signal.removeEventListener("abort", stream.#onAbort);
      throw describeStreamError(error);
    }
    stream.#ticking = sharedInterval(feedbackIntervalMs(options.walSenderTimeoutMs), () => stream.#tick());
    return stream;
  }

  async next(): Promise<ChangeBatch> {
    this.#isOut = false;
    this.#buffer.releaseTaken();
    this.#detectCaughtUp();
    this.#applyBackpressure();
    while (true) {
      this.options.signal.throwIfAborted();
      // What is buffered of such a transaction must not be written, and everything else comes again.
      if (isGivenUp(this.#failure)) throw this.#failure;
      const collectMs = this.#collectForMs();
      const batch = collectMs > 0 ? null : this.#take();
      if (batch) {
        this.#advance.handedOutBatch(batch);
        if (batch.count > 0) this.#recordActivity();
        this.#isOut = true;
        this.#applyBackpressure();
        await this.options.beforeHandOut();
        return await this.#relations.complete(batch);
      }
      if (this.#failure !== null) throw this.#failure;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        if (collectMs > 0) this.#collecting = setTimeout(() => this.#notify(), collectMs);
      });
    }
  }

  #collectForMs(): number {
    if (this.#failure !== null || this.#buffer.hasFullBatch) return 0;
    return collectForMs(this.#isBacklog, this.#advance.sinceMs, this.options.pace);
  }

  get #isBacklog(): boolean {
    return this.#decoder.builder.resumeLsn < this.options.logEnd;
  }

  reach(lsn: Lsn): void {
    this.#advance.reach(lsn);
    if (this.#isIdleAdvance()) this.#notify();
  }

  acknowledge(resumeLsn: Lsn): void {
    this.#status.acknowledge(resumeLsn);
  }

  async end(written: Lsn): Promise<ChangeBatch | null> {
    this.#isEnding = true;
    const resumeLsn = await this.#status.untilStill(() => this.#passed(written));
    if (resumeLsn === null || resumeLsn <= written) return null;
    await this.options.beforeHandOut();
    return emptyBatch(this.options.request.form, resumeLsn);
  }

  /** Up to where the server has sent everything, if all of ours in it is written; null: something is not. */
  #passed(written: Lsn): Lsn | null {
    const isAll = this.#buffer.isEmpty && !this.#buffer.isDeliverable && this.#advance.handedOut <= written;
    return isAll && this.#failure === null ? this.#decoder.builder.resumeLsn : null;
  }

  /** The end of the server's log, as far as it is known. */
  get logEnd(): Lsn {
    return this.#log.known;
  }

  /** The end of the log as seen over another connection. Returns whether the server sends nothing, though its log goes on. */
  observeLogEnd(at: Lsn): boolean {
    this.#log.seen(at, this.#decoder.builder.resumeLsn);
    return this.#log.standsStill;
  }

  lag(): StreamLag {
    // Unless a change of ours is pending, or not sent for long, what the server has logged since then is not for us.
    const { builder, inProgress } = this.#decoder;
    const isAmid = builder.inTransaction || inProgress !== null;
    const isPending = isAmid || !this.#buffer.isEmpty || this.#status.acknowledged < this.#advance.handedOut;
    const { known, standsStill, isStale } = this.#log;
    const isUnsent = this.#log.isUnsent(builder.resumeLsn);
    const isBehind = isPending || (standsStill && isUnsent);
    const bytes = isBehind && known > this.#status.acknowledged ? known - this.#status.acknowledged : 0n;
    const isInTheDark = (isPending && isStale) || isUnsent || standsStill;
    return { bytes: Number(bytes), isInTheDark };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.options.signal.removeEventListener("abort", this.#onAbort);
    this.#ticking?.[Symbol.dispose]();
    this.#liveness[Symbol.dispose]();
    this.#advance[Symbol.dispose]();
    // A closed connection may take what was sent last with it.
    const isHeard =
      this.#isEnding && this.#failure === null && !this.options.signal.aborted && !this.#isPaused;
    await this.#status.end(isHeard);
    await this.#client?.[Symbol.asyncDispose]();
  }

  readonly #onAbort = () => {
    this.#status.answered();
    this.#notify();
  };

  #receive(bytes: Buffer, at: number, end: number): void {
    this.#decoder.decode(bytes, at, end);
    this.#buffer.splitInProgress();
    if (this.#wake !== null && this.#isWorthTaking) this.#notify();
    if (!this.#isPaused && this.#buffer.isFull) this.#applyBackpressure();
  }

  #receiveLarge(bytes: Buffer, at: number, end: number): void {
    this.#buffer.receiveLarge(bytes, at, end);
    if (this.#buffer.isDeliverable) this.#notify();
    this.#applyBackpressure();
  }

  get #isWorthTaking(): boolean {
    // Collecting ends with the backlog: the next change may be long in coming.
    const isCollecting = this.#collecting !== null && this.#isBacklog;
    return isCollecting ? this.#buffer.hasFullBatch : this.#buffer.isDeliverable;
  }

  #keepalive(walEnd: Lsn, replyRequested: boolean): void {
    this.#log.tells(walEnd);
    const builder = this.#decoder.builder;
    const before = builder.resumeLsn;
    // The server has sent everything committed before `walEnd`, and none of it is for us.
    if (!builder.inTransaction && walEnd > builder.resumeLsn) builder.resumeLsn = walEnd;
    this.#status.answered();
    if (replyRequested) {
      this.#status.send();
      // A server that is being stopped waits until its whole log is acknowledged, including what is not for us.
      this.#advance.requestReply();
    }
    if ((replyRequested || this.#advance.isAwaited(before)) && this.#isIdleAdvance()) this.#notify();
    this.#advance.await(builder.resumeLsn);
    this.#detectCaughtUp();
    if (this.#wake !== null && this.#isWorthTaking) this.#notify();
  }

  #detectCaughtUp(): void {
    if (this.#isOut) return;
    const { inTransaction, resumeLsn } = this.#decoder.builder;
    const isAllOut = !inTransaction && this.#buffer.isEmpty;
    if ((isAllOut ? resumeLsn : this.#advance.handedOut) >= this.options.logEnd) this.#catchUp.resolve();
  }

  #tick(): void {
    const verdict = this.#liveness.check(this.#isPaused);
    if (verdict === "dead") {
      this.#fail(this.#liveness.failure);
      return;
    }
    this.#status.send(verdict !== "alive");
    if (this.#isIdleAdvance()) this.#notify();
    // The decoded heartbeat reports the server's position, whatever the server would report by itself.
    if (this.#advance.isAwaited(this.#decoder.builder.resumeLsn)) void this.options.writeHeartbeat();
    const quietMs = performance.now() - this.#activityAt;
    if (isHeartbeatDue(this.#log.told - this.#activityWalEnd, quietMs, this.options.pace)) {
      this.#recordActivity();
      void this.options.writeHeartbeat();
    }
  }

  #recordActivity(): void {
    this.#activityAt = performance.now();
    this.#activityWalEnd = this.#log.told;
  }

  #isIdleAdvance(): boolean {
    return this.#buffer.isEmpty && this.#advance.isDue(this.#decoder.builder.resumeLsn);
  }

  #take(): ChangeBatch | null {
    const batch = this.#buffer.take();
    if (batch !== null || !this.#isIdleAdvance()) return batch;
    return emptyBatch(this.options.request.form, this.#decoder.builder.resumeLsn);
  }

  #applyBackpressure(): void {
    const { isFull } = this.#buffer;
    if (isFull === this.#isPaused) return;
    this.#isPaused = isFull;
    if (isFull) this.#client?.pause();
    else this.#client?.resume();
  }

  #fail(error: unknown): void {
    this.#failure ??= error;
    this.#status.answered();
    this.#notify();
  }

  #notify(): void {
    const wake = this.#wake;
    this.#wake = null;
    if (this.#collecting) clearTimeout(this.#collecting);
    this.#collecting = null;
    wake?.();
  }
}
