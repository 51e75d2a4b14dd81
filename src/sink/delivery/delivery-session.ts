// One session of a sink of messages, in the transport's worker. It takes what the line brings, in order, and has it cut, sent and made
// durable. The other end of the line is message-sink.ts.

import type { Checkpoint } from "../../change/checkpoint.ts";
import type { TableShape } from "../../change/relation.ts";
import { nextTurn } from "../../concurrency/sleep.ts";
import { untilAborted } from "../../concurrency/until-aborted.ts";
import { MillraceError, toMillraceError } from "../../errors/millrace-error.ts";
import type { CompiledTable } from "../format/compiled-table.ts";
import type { DeliveryContext } from "./copy/copy-context.ts";
import { DeliveryCopies } from "./copy/delivery-copies.ts";
import { KeylessCopies } from "./copy/keyless-copies.ts";
import { canStreamGoOn, RecordedCopies } from "./copy/recorded-copies.ts";
import { type DeliveryMessage, endsChunks, savesFirst } from "./delivery-messages.ts";
import type { DeliverySettings, DeliveryTools } from "./delivery-settings.ts";
import { Inbox } from "./line/inbox.ts";
import type { FromDelivery, PreparedRecord } from "./line/line-messages.ts";
import { CommitPoint } from "./record/commit-point.ts";
import { RecordKeeper, spacingOf } from "./record/record-keeper.ts";
import { noTables, SavedTables } from "./record/recorded-tables.ts";
import { begunRecord, hasStream, parseRecord, type SinkRecord } from "./record/sink-record.ts";
import { passedBy, placed, standing } from "./record/standing.ts";
import { ChangeRows } from "./stream/change-rows.ts";
import { StreamWindows } from "./stream/stream-windows.ts";
import { TransactionCounts } from "./stream/transaction-counts.ts";
import { TruncateNotice } from "./stream/truncate-notice.ts";
import { WindowClock } from "./stream/window-clock.ts";
import { windowChanges } from "./stream/window-options.ts";
import type { Transport, TransportEvents } from "./transport.ts";

const windowBytes = 8 * 1024 * 1024;

export class DeliverySession {
  readonly #inbox = new Inbox<DeliveryMessage>();
  readonly #tables = new Map<number, CompiledTable>();
  readonly #copies: DeliveryCopies;
  readonly #transport: Transport;
  readonly #commitPoint: CommitPoint | null;
  readonly #clock: WindowClock;
  readonly #truncates: TruncateNotice;
  /** Null: nothing has begun. */
  #delivering: DeliveryContext | null = null;
  /** The last version that was given out before everything was forgotten. */
  #forgottenVersion = -1n;
  /** The tables were looked at. */
  #hasPrepared = false;
  #failed = false;
  #isStopping = false;
  #stopped = false;

  constructor(
    private readonly settings: DeliverySettings,
    private readonly tools: DeliveryTools,
    private readonly send: (message: FromDelivery) => void,
  ) {
    const { encoding, flushIntervalMs, maxBufferedCopyRows } = settings;
    this.#truncates = new TruncateNotice(encoding.sends("truncate"), tools.log);
    const events: TransportEvents = {
      retrying: (attempt, reason, inMs) => send({ type: "retrying", attempt, reason, inMs }),
      warning: (topic, reason) => send({ type: "warning", topic, reason }),
      commit: () => this.#commitPoint?.ask(),
      failed: (error) => this.#fail(error),
    };
    this.#transport = tools.transport(events, tools.store);
    this.#clock = new WindowClock(flushIntervalMs, tools.monotonic, this.#transport.commitWithinMs);
    this.#commitPoint = this.#makeCommitPoint();
    this.#copies = new DeliveryCopies({
      chunk: {
        transport: this.#transport,
        commitPoint: this.#commitPoint,
        sendsReads: encoding.sends("read"),
        yieldToIo: nextTurn,
      },
      filter: encoding,
      maxUndelivered: maxBufferedCopyRows,
      table: (handle) => this.#table(handle),
      begun: () => this.#begun(),
      send,
      failed: (error) => this.#fail(error),
      delivered: () => this.#awaitIncomplete(),
    });
  }

  /** Hands over a message. Messages are handled one after the other. */
  receive(message: DeliveryMessage): void {
    if (this.#commitPoint && endsChunks.has(message.type)) this.#handleAtOnce(message);
    else this.#inbox.put(message);
  }

  /** What a chunk of a copy still needs: a message before it may wait for a commit, which waits for the chunk. */
  #handleAtOnce(message: DeliveryMessage): void {
    if (!this.#isOver) this.#handle(message).catch((error: unknown) => this.#fail(error));
  }

  /** Handles messages until `stop`. Never throws: a failure is sent over the line. */
  async run(): Promise<void> {
    for (;;) {
      const message = await this.#inbox.take(this.#timed && this.#clock.waitMs(this.#timed));
      if (this.#stopped) return;
      if (this.#timed) this.#clock.keep(this.#timed, this.#inbox.isEmpty);
      if (message === null || this.#isOver) continue;
      try {
        this.#commitPoint?.hold(savesFirst.has(message.type));
        await this.#handle(message);
      } catch (error) {
        this.#fail(error);
      } finally {
        this.#commitPoint?.hold(false);
      }
    }
  }

  /** Begins nothing new. Returns when what is under way has ended and is recorded, or `signal` aborts it. */
  async stop(signal: AbortSignal): Promise<void> {
    this.#isStopping = this.#commitPoint !== null;
    this.#copies.breakOff();
    await this.#transport.drain(signal);
    const { stream, keeper } = this.#delivering ?? {};
    if (stream?.isBetween === false) this.#commitPoint?.giveUp();
    await untilAborted(Promise.resolve(stream?.settled()), signal).catch(() => undefined);
    this.#commitPoint?.giveUp();
    // Also what a copy or a retry has asked to be saved.
    await untilAborted(Promise.resolve(keeper?.settled()), signal).catch(() => undefined);
    // A commit under way is not waited for any longer.
    if (signal.aborted) await this.#transport.drain(signal);
    await keeper?.close();
    await this.#transport.close();
    this.#stopped = true;
    this.#inbox.wake();
  }

  async #handle(message: DeliveryMessage): Promise<void> {
    switch (message.type) {
      case "open":
        return this.#reply(message.id, await this.#open());
      case "begin":
        await this.#begin(message.checkpoint);
        return this.#reply(message.id, null);
      case "log":
        this.#begun().recorded.forgetBegun();
        this.#begun().keeper.change({ log: message.log });
        await this.#begun().keeper.save();
        return this.#reply(message.id, null);
      case "forget":
        await this.#forget();
        return this.#reply(message.id, null);
      case "prepare":
        return this.#reply(message.id, await this.#prepare(message));
      case "relation":
        this.#tables.set(message.handle, await this.#transport.compile(message.relation));
        return;
      case "changes": {
        const tables = message.batch.relations.map((handle) => this.#table(handle));
        const batch = { ...message.batch, relations: tables.map((table) => table.relation) };
        this.#truncates.look(batch);
        const { stream, recorded } = this.#begun();
        await stream.take(batch, tables);
        this.send({ type: "credit", bytes: message.bytes, chunk: null, isIncremental: false });
        if (recorded.takeDue(stream.resumeLsn)) this.send({ type: "changed" });
        return this.#awaitIncomplete();
      }
      case "flush":
        await this.#begun().stream.flush();
        return this.#reply(message.id, null);
      default:
        await this.#copies.handle(message);
        if (message.type === "copy.end" && this.#delivering) this.#awaitIncomplete();
    }
  }

  async #open(): Promise<Checkpoint | null> {
    const saved = await this.#transport.store.load();
    if (saved === null) return null;
    const stored = parseRecord(saved);
    if (stored.kind === "forgotten") {
      this.#forgottenVersion = stored.lastVersion;
      return null;
    }
    const { record } = stored;
    this.#transport.passed?.(passedBy(record), hasStream(record));
    this.#transport.replaysUntil?.(record.reached);
    this.#start(record, new SavedTables(stored.isParted ? record : noTables));
    return standing(record, this.#transport.keptReach);
  }

  async #begin(checkpoint: Checkpoint): Promise<void> {
    if (this.#delivering) throw new MillraceError("internal", "the sink has begun already");
    // Rows that were sent before everything was forgotten must not be newer than the ones that come now.
    const least = this.#forgottenVersion + 1n;
    const lastVersion = checkpoint.lastVersion > least ? checkpoint.lastVersion : least;
    this.#start(begunRecord({ ...checkpoint, lastVersion }), new SavedTables(noTables));
    await this.#begun().keeper.save();
  }

  async #forget(): Promise<void> {
    if (!this.#delivering) return;
    const { keeper, stream } = this.#delivering;
    await stream.flush();
    await keeper.settled();
    const lastVersion = keeper.lastVersion;
    await keeper.forget(lastVersion);
    this.#forgottenVersion = lastVersion;
    this.#delivering = null;
  }

  #start(record: SinkRecord, saved: SavedTables): void {
    const { monotonic } = this.tools;
    const { batch, encoding, flushIntervalMs, maxBufferedRows } = this.settings;
    const spacingMs = spacingOf(flushIntervalMs, this.#transport.keepsReceipts);
    const { store } = this.#transport;
    const maxBytes = () => this.#transport.windowBytes ?? windowBytes;
    const keeper = new RecordKeeper(store, record, saved, monotonic, spacingMs, this.#commitPoint);
    const recorded = new RecordedCopies(keeper, encoding, monotonic);
    const keyless = new KeylessCopies(keeper, encoding.sends("read"));
    const stream = new StreamWindows({
      cutsMatter: batch.maxRows !== 1,
      window: { maxBytes, maxChanges: Math.min(windowChanges, maxBufferedRows) },
      rows: this.#rows(record, recorded),
      keyless,
      keeper,
      outlet: (options) => this.#transport.stream(options),
      commitPoint: this.#commitPoint,
      durable: ({ checkpoint, rows, bytes }) => {
        this.#transport.passed?.(checkpoint, recorded.isAnyOpen);
        this.send({ type: "durable", checkpoint: placed(checkpoint, keeper.record.log), rows, bytes });
      },
      failed: (error) => this.#fail(error),
      monotonic,
      yieldToIo: nextTurn,
    });
    this.#delivering = { keeper, stream, recorded, keyless };
  }

  #makeCommitPoint(): CommitPoint | null {
    const withinMs = this.#transport.commitWithinMs;
    if (withinMs === null) return null;
    return new CommitPoint({
      isBetween: () => this.#copies.holdStream || (this.#delivering?.stream.isBetween ?? true),
      settle: () => this.#delivering?.stream.settle(),
      withinMs,
      monotonic: this.tools.monotonic,
      commit: () => void this.#delivering?.keeper.save().catch((error: unknown) => this.#fail(error)),
    });
  }

  #rows({ checkpoint }: SinkRecord, recorded: RecordedCopies): ChangeRows {
    const { encoding, batch } = this.settings;
    const { transactions } = encoding;
    const last = checkpoint.transaction ?? null;
    const counts = transactions && new TransactionCounts({ ...transactions, isBare: batch.isBare }, last);
    return new ChangeRows(Number(checkpoint.lastVersion), encoding, [recorded, this.#copies], counts);
  }

  /**
   * Changes that come again after a restart have to have the versions that they had. The pipeline prepares once when a run begins, and again
   * when nothing is a repetition any more. The first time it is told of no copy that would take a version before these changes.
   */
  async #prepare(message: Extract<DeliveryMessage, { type: "prepare" }>): Promise<PreparedRecord> {
    const { keeper, stream, recorded } = this.#begun();
    const { tables, unreadable, makesCopies } = message;
    await this.#transport.prepare(tables.map(({ relation }) => relation));
    // A copy under way that counts no more has to be known first.
    const underWay = this.#copies.look(tables);
    const isFirst = !this.#hasPrepared;
    this.#hasPrepared = true;
    const isLater = ({ relation }: TableShape) =>
      isFirst && makesCopies && hasStream(keeper.record) && !canStreamGoOn(relation, this.settings.encoding);
    const { missing, later, hasChanges } = await keeper.prepare(tables, unreadable, isLater);
    const incomplete = recorded.due(stream.resumeLsn);
    this.#awaitIncomplete();
    if (isFirst && (incomplete.length > 0 || later.length > 0)) this.send({ type: "changed" });
    return {
      missing: missing.filter((name) => !underWay.has(name) && !later.includes(name)),
      hasChanges,
      incomplete: isFirst ? [] : incomplete,
    };
  }

  /** A quiet source would not report for long that all of its log was sent up to there. */
  #awaitIncomplete(): void {
    const { recorded, stream } = this.#begun();
    const lsn = recorded.awaited(stream.resumeLsn);
    if (lsn !== null) this.send({ type: "awaits", lsn });
  }

  /** Null while time has nothing to do. */
  get #timed(): StreamWindows | null {
    return this.#failed ? null : (this.#delivering?.stream ?? null);
  }

  #table(handle: number): CompiledTable {
    const table = this.#tables.get(handle);
    if (!table) throw new MillraceError("internal", "a batch names a relation that was not announced");
    return table;
  }

  #begun(): DeliveryContext {
    if (!this.#delivering) throw new MillraceError("internal", "the sink has not begun");
    return this.#delivering;
  }

  #reply(id: number, answer: unknown): void {
    this.send({ type: "reply", id, answer });
  }

  /** Nothing more is handled: with what failed left out, what comes after it must not be committed. */
  get #isOver(): boolean {
    return this.#failed || this.#isStopping;
  }

  #fail(error: unknown): void {
    if (this.#failed) return;
    this.#failed = true;
    const { code, message, table } = toMillraceError(error);
    if (!this.#isStopping) this.send({ type: "failed", code, message, table });
    this.#copies.breakOff();
    this.#commitPoint?.giveUp();
    void this.#transport.drain(AbortSignal.abort(error));
  }
}
