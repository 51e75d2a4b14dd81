// A stream of changes from one slot: fills batches as messages arrive, hands them out when asked, stops reading when
// too much waits, and tells the server on a timer what is durable.

import type { Client } from "pg";
import { BatchBuilder, emptyBatch } from "../../../change/batch-builder.ts";
import type { ChangeBatch } from "../../../change/change-batch.ts";
import type { Checkpoint } from "../../../change/checkpoint.ts";
import type { Lsn } from "../../../change/lsn.ts";
import type { Relation } from "../../../change/relation.ts";
import { isGivenUp } from "../../../errors/given-up.ts";
import { sharedInterval } from "../../../measure/shared-interval.ts";
import type { ChangeStream, StreamLag } from "../../source.ts";
import { AssumedRelations } from "../shapes/assumed-relations.ts";
import type { Announced } from "../shapes/relation-description.ts";
import type { RelationRegistry } from "../shapes/relation-registry.ts";
import { collectForMs, feedbackIntervalMs, isHeartbeatDue, type StreamPace } from "./feedback.ts";
import { IdleAdvance } from "./idle-advance.ts";
import { PgoutputDecoder } from "./pgoutput-decoder.ts";
import { ReplicationClient, type ReplicationRequest } from "./replication-client.ts";
import { Silence } from "./silence.ts";
import { type StreamBounds, StreamBuffer } from "./stream-buffer.ts";
import { describeStreamError } from "./stream-failure.ts";

export interface PostgresStreamOptions {
  readonly client: Parameters<typeof ReplicationClient.start>[0];
  readonly request: ReplicationRequest;
  readonly checkpoint: Checkpoint;
  readonly registry: RelationRegistry;
  readonly walSenderTimeoutMs: number;
  /** Where the server's log ended before the stream began. */
  readonly logEnd: Lsn;
  readonly bounds: StreamBounds;
  /** Completes relations with what the catalog knows. */
  readonly describe: (announced: readonly Announced[]) => Promise<readonly Relation[]>;
  /** Resolves when nothing is lost with what is handed out next, and with it acknowledged. */
  readonly settle: () => Promise<void>;
  readonly pace: StreamPace;
  /** Writes a message of ours into the source's log. Never rejects. */
  readonly beat: () => Promise<void>;
  /** Looks over another connection whether the walsender has anything to say, and breaks the stream's if it has not. */
  readonly watch: (client: Client) => Disposable;
  /** The shapes that hold from a fence on, by the fence's name and place. */
  readonly shapesAt: (fence: string, at: Lsn) => readonly Relation[];
  readonly signal: AbortSignal;
}

const soonMs = 200;
/** A server that is not busy with a backlog says more often how far its log has come. */
const untoldMs = 1_000;

export class PostgresStream implements ChangeStream {
  readonly caughtUp: Promise<void>;
  readonly #catchUp = Promise.withResolvers<void>();
  readonly #decoder: PgoutputDecoder;
  readonly #buffer: StreamBuffer;
  #client: ReplicationClient | null = null;
  #ticking: Disposable | null = null;
  #failure: unknown = null;
  #wake: (() => void) | null = null;
  /** While the reader waits for more than there is. */
  #collecting: ReturnType<typeof setTimeout> | null = null;
  readonly #silence: Silence;
  #soon: ReturnType<typeof setTimeout> | null = null;
  #isPaused = false;
  readonly #assumed: AssumedRelations;
  #acknowledged: Lsn;
  readonly #advance: IdleAdvance;
  #walEnd: Lsn;
  #logEnd: Lsn;
  /** When the server said last how far its log has come. */
  #toldAt = performance.now();
  /** When something of ours came last, or a heartbeat was sent, and where the server's log ended then. */
  #stirredAt = performance.now();
  #stirredEnd: Lsn;

  private constructor(private readonly options: PostgresStreamOptions) {
    const { checkpoint, request, registry } = options;
    this.caughtUp = this.#catchUp.promise;
    this.#acknowledged = checkpoint.resumeLsn;
    this.#advance = new IdleAdvance(checkpoint.resumeLsn, options.pace);
    this.#walEnd = checkpoint.resumeLsn;
    this.#stirredEnd = checkpoint.resumeLsn;
    this.#logEnd = options.logEnd;
    this.#silence = new Silence(
      options.walSenderTimeoutMs,
      () => this.#client?.watch(this.options.watch) ?? null,
    );
    const builder = new BatchBuilder(request.form, checkpoint.resumeLsn);
    this.#decoder = new PgoutputDecoder(builder, request.form, checkpoint, registry, options.shapesAt);
    this.#assumed = new AssumedRelations(registry, options.describe);
    this.#buffer = new StreamBuffer(this.#decoder, request.form, options.bounds);
  }

  static async start(options: PostgresStreamOptions): Promise<PostgresStream> {
    const stream = new PostgresStream(options);
    options.signal.addEventListener("abort", stream.#onAbort, { once: true });
    try {
      const { client, request, signal } = options;
      const handlers = {
        onMessage: (bytes: Buffer, at: number, end: number) => stream.#receive(bytes, at, end),
        onLargeMessage: (bytes: Buffer, at: number, end: number) => stream.#receiveLarge(bytes, at, end),
        onBytes: stream.#silence.hear,
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
    this.#buffer.takeBack();
    this.#regulate();
    while (true) {
      this.options.signal.throwIfAborted();
      // What waits of such a transaction would be written for nothing, and all else comes again.
      if (isGivenUp(this.#failure)) throw this.#failure;
      const collectMs = this.#collectForMs();
      const batch = collectMs > 0 ? null : this.#take();
      if (batch) {
        this.#advance.hands(batch);
        if (batch.count > 0) this.#stir();
        this.#noteCatchUp();
        this.#regulate();
        await this.options.settle();
        return await this.#describe(batch);
      }
      if (this.#failure !== null) throw this.#failure;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        if (collectMs > 0) this.#collecting = setTimeout(() => this.#notify(), collectMs);
      });
    }
  }

  #collectForMs(): number {
    if (this.#failure !== null || this.#buffer.isAmple) return 0;
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
    if (resumeLsn <= this.#acknowledged) return;
    this.#acknowledged = resumeLsn;
    // Soon, so that a restart has little to read again; not at once, so that many share a message.
    this.#soon ??= setTimeout(() => this.#sendFeedback(), soonMs);
  }

  /** How far the server's log has come, as far as is known. */
  get logEnd(): Lsn {
    return this.#logEnd;
  }

  /** Where it was seen to end, over any connection: a server that has a backlog to send says nothing of that before all is sent. */
  sawLogEnd(at: Lsn): void {
    if (at > this.#logEnd) this.#logEnd = at;
  }

  lag(): StreamLag {
    // What the server has logged since then is not for us, unless something of it waits.
    const { builder, inProgress, lastCommitTimeUs } = this.#decoder;
    const isAmid = builder.inTransaction || inProgress !== null;
    const isBehind = isAmid || !this.#buffer.isEmpty || this.#acknowledged < this.#advance.handedOut;
    const bytes = isBehind && this.#logEnd > this.#acknowledged ? this.#logEnd - this.#acknowledged : 0n;
    const isInTheDark = isBehind && performance.now() - this.#toldAt > untoldMs;
    return { bytes: Number(bytes), isInTheDark, lastCommitTimeUs };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.options.signal.removeEventListener("abort", this.#onAbort);
    this.#ticking?.[Symbol.dispose]();
    this.#silence[Symbol.dispose]();
    this.#sendFeedback();
    await this.#client?.[Symbol.asyncDispose]();
  }

  readonly #onAbort = () => this.#notify();

  #receive(bytes: Buffer, at: number, end: number): void {
    this.#decoder.decode(bytes, at, end);
    this.#buffer.divide();
    if (this.#wake !== null && this.#isWorthTaking) this.#notify();
    if (!this.#isPaused && this.#buffer.isFull) this.#regulate();
  }

  #receiveLarge(bytes: Buffer, at: number, end: number): void {
    this.#buffer.receiveLarge(bytes, at, end);
    if (this.#buffer.isDeliverable) this.#notify();
    this.#regulate();
  }

  get #isWorthTaking(): boolean {
    // The end of a backlog ends the collecting: what comes next may be long in coming.
    const isCollecting = this.#collecting !== null && this.#isBacklog;
    return isCollecting ? this.#buffer.isAmple : this.#buffer.isDeliverable;
  }

  #keepalive(walEnd: Lsn, replyRequested: boolean): void {
    if (walEnd > this.#walEnd) this.#walEnd = walEnd;
    this.#toldAt = performance.now();
    this.sawLogEnd(walEnd);
    const builder = this.#decoder.builder;
    const before = builder.resumeLsn;
    // All that was committed before `walEnd` has been sent, and nothing of it is for us.
    if (!builder.inTransaction && walEnd > builder.resumeLsn) builder.resumeLsn = walEnd;
    if (replyRequested) {
      this.#sendFeedback();
      // A server that is being stopped waits until its whole log is acknowledged, also what is not for us.
      this.#advance.ask();
    }
    if ((replyRequested || this.#advance.isWaitedFor(before)) && this.#isIdleAdvance()) this.#notify();
    this.#noteCatchUp();
    if (this.#wake !== null && this.#isWorthTaking) this.#notify();
  }

  #sendFeedback(ping = false): void {
    if (this.#soon) clearTimeout(this.#soon);
    this.#soon = null;
    this.#client?.sendFeedback(this.#acknowledged, ping);
  }

  #noteCatchUp(): void {
    const { inTransaction, resumeLsn } = this.#decoder.builder;
    if (!inTransaction && this.#buffer.isEmpty && resumeLsn >= this.options.logEnd) this.#catchUp.resolve();
  }

  #tick(): void {
    const verdict = this.#silence.look(this.#isPaused);
    if (verdict === "dead") {
      this.#fail(this.#silence.failure);
      return;
    }
    this.#sendFeedback(verdict !== "alive");
    if (this.#isIdleAdvance()) this.#notify();
    // What comes back of a message of ours tells where the server is, whatever it would say by itself.
    if (this.#advance.isWaitedFor(this.#decoder.builder.resumeLsn)) void this.options.beat();
    const stirredMs = performance.now() - this.#stirredAt;
    if (isHeartbeatDue(this.#walEnd - this.#stirredEnd, stirredMs, this.options.pace)) {
      this.#stir();
      void this.options.beat();
    }
  }

  #stir(): void {
    this.#stirredAt = performance.now();
    this.#stirredEnd = this.#walEnd;
  }

  #isIdleAdvance(): boolean {
    return this.#buffer.isEmpty && this.#advance.isDue(this.#decoder.builder.resumeLsn);
  }

  #take(): ChangeBatch | null {
    const batch = this.#buffer.take();
    if (batch !== null || !this.#isIdleAdvance()) return batch;
    return emptyBatch(this.options.request.form, this.#decoder.builder.resumeLsn);
  }

  async #describe(batch: ChangeBatch): Promise<ChangeBatch> {
    const { registry } = this.options;
    const { inProgress } = batch;
    if (inProgress) {
      const own = [...batch.relations];
      this.#assumed.assume(own, this.#buffer.relationLists);
      if (inProgress.outcome !== "open") await this.#assumed.end(inProgress);
      return { ...batch, relations: own };
    }
    const announced = registry.undescribed(batch.relations);
    if (announced.length === 0) return batch;
    const described = await this.options.describe(announced);
    const own = [...batch.relations];
    announced.forEach(({ relation }, i) => {
      registry.describe(relation, described[i] ?? relation, [own, ...this.#buffer.relationLists]);
    });
    return { ...batch, relations: own };
  }

  #regulate(): void {
    const { isFull } = this.#buffer;
    if (isFull === this.#isPaused) return;
    this.#isPaused = isFull;
    if (isFull) this.#client?.pause();
    else this.#client?.resume();
  }

  #fail(error: unknown): void {
    this.#failure ??= error;
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
