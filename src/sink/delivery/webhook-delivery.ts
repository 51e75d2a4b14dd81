// One session of delivering: what the line brings is taken in order, cut, sent and made durable. The other
// end of the line is webhook-sink.ts; cutting, scheduling and sending have files of their own.

import type { Checkpoint } from "../../change/checkpoint.ts";
import type { ConnectorConfig } from "../../connector/connector.ts";
import { MillraceError, toMillraceError } from "../../errors/millrace-error.ts";
import { type CompiledTable, compileTable } from "../format/compiled-table.ts";
import { type MessageEncoding, messageEncoding } from "../format/message-encoding.ts";
import type { CheckpointStore } from "../sink.ts";
import type { Attempt } from "../webhook/sender.ts";
import { configuredSink } from "./configured-sink.ts";
import { BesideCopies } from "./copy/beside-copies.ts";
import { CopyDesk } from "./copy/copy-desk.ts";
import { CopyGate } from "./copy/copy-gate.ts";
import { DividedCopies } from "./copy/divided-copies.ts";
import { KeylessCopies } from "./copy/keyless-copies.ts";
import { type Delivering, TableCopies, type TableCopiesOptions } from "./copy/table-copies.ts";
import { WholeCopies } from "./copy/whole-copies.ts";
import { Inbox } from "./line/inbox.ts";
import type { DeliveryState, FromDelivery, ToDelivery } from "./line/line-messages.ts";
import { Scheduler } from "./order/scheduler.ts";
import { schedulerOptions } from "./order/scheduler-options.ts";
import { RecordKeeper, spacingOf } from "./record/record-keeper.ts";
import { noTables, SavedTables } from "./record/recorded-tables.ts";
import { parseRecord, placed, type SinkRecord } from "./record/sink-record.ts";
import { ChangeRows } from "./stream/change-rows.ts";
import { StreamWindows } from "./stream/stream-windows.ts";
import { TransactionCounts } from "./stream/transaction-counts.ts";
import { TruncateNotice } from "./stream/truncate-notice.ts";
import { WindowClock } from "./stream/window-clock.ts";

export interface DeliveryTools {
  readonly attempt: Attempt;
  readonly store: CheckpointStore;
  readonly log: (level: "info" | "warn", message: string, fields: Readonly<Record<string, string>>) => void;
  /** Milliseconds of a clock that never goes back. */
  readonly monotonic: () => number;
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>;
  readonly random: () => number;
}

const defaultFlushIntervalMs = 100;
const windowBytes = 8 * 1024 * 1024;
const windowChanges = 65_536;

/** What a session is asked to do; ending it is the line's. */
export type DeliveryMessage = Exclude<ToDelivery, { type: "close" }>;

const breathe = () => new Promise<void>((resolve) => setImmediate(resolve));

export class WebhookDelivery {
  readonly #inbox = new Inbox<DeliveryMessage>();
  readonly #tables = new Map<number, CompiledTable>();
  readonly #copies: TableCopies;
  readonly #besides: BesideCopies;
  readonly #wholes: WholeCopies;
  readonly #desk: CopyDesk;
  readonly #encoding: MessageEncoding;
  readonly #scheduler: Scheduler;
  readonly #clock: WindowClock;
  readonly #truncates: TruncateNotice;
  /** Null: nothing has begun. */
  #delivering: Delivering | null = null;
  /** The last version of a life that was forgotten. */
  #forgottenVersion = -1n;
  #failed = false;
  #stopped = false;

  constructor(
    private readonly connector: ConnectorConfig,
    private readonly tools: DeliveryTools,
    private readonly send: (message: FromDelivery) => void,
  ) {
    this.#encoding = messageEncoding(connector);
    this.#truncates = new TruncateNotice(this.#encoding.sends("truncate"), tools.log);
    this.#clock = new WindowClock(this.#flushIntervalMs, tools.monotonic);
    this.#scheduler = new Scheduler(tools.attempt, schedulerOptions(connector, tools), {
      retrying: (attempt, reason) => send({ type: "retrying", attempt, reason }),
      failed: (error) => this.#fail(error),
    });
    const options: TableCopiesOptions = {
      batch: this.#limits(),
      scheduler: this.#scheduler,
      sendsReads: this.#encoding.sends("read"),
      maxUndelivered: connector.limits.snapshot.max_buffer_rows || Number.POSITIVE_INFINITY,
      progress: (copy, rows, bytes) => send({ type: "copy.progress", copy, rows, bytes }),
      breathe,
    };
    this.#copies = new TableCopies(options);
    this.#besides = new BesideCopies(options, this.#encoding);
    this.#wholes = new WholeCopies(options);
    this.#desk = new CopyDesk({
      copies: this.#copies,
      besides: this.#besides,
      wholes: this.#wholes,
      table: (handle) => this.#table(handle),
      begun: () => this.#begun(),
      send,
      failed: (error) => this.#fail(error),
    });
  }

  /** Hands over a message; they are handled one after the other. */
  receive(message: DeliveryMessage): void {
    this.#inbox.put(message);
  }

  /** Handles messages until `stop`. Never throws: a failure is sent over the line. */
  async run(): Promise<void> {
    for (;;) {
      const message = await this.#inbox.take(this.#timed && this.#clock.waitMs(this.#timed));
      if (this.#stopped) return;
      if (this.#timed) this.#clock.keep(this.#timed, this.#inbox.isEmpty);
      if (message === null || this.#failed) continue;
      try {
        await this.#handle(message);
      } catch (error) {
        this.#fail(error);
      }
    }
  }

  /**
   * Begins nothing new; returns when what is under way has ended and is recorded, or `signal` cuts it off.
   */
  async stop(signal: AbortSignal): Promise<void> {
    this.#breakOff();
    await this.#scheduler.drain(signal);
    await this.#delivering?.keeper.close();
    this.#stopped = true;
    this.#inbox.wake();
  }

  async #handle(message: DeliveryMessage): Promise<void> {
    switch (message.type) {
      case "open":
        return this.send({ type: "reply", id: message.id, state: await this.#open() });
      case "begin":
        await this.#begin(message.checkpoint);
        return this.#done(message.id);
      case "log":
        this.#begun().divided.forgetBegun();
        this.#begun().keeper.change({ log: message.log });
        await this.#begun().keeper.save();
        return this.#done(message.id);
      case "forget":
        await this.#forget();
        return this.#done(message.id);
      case "prepare":
        return this.send({ type: "reply", id: message.id, state: await this.#prepare(message) });
      case "relation": {
        const { relation } = message;
        this.#tables.set(message.handle, compileTable(relation, this.#encoding.compile(relation)));
        return;
      }
      case "changes": {
        const tables = message.batch.relations.map((handle) => this.#table(handle));
        const batch = { ...message.batch, relations: tables.map((table) => table.relation) };
        this.#truncates.look(batch);
        const { stream, divided, gate } = this.#begun();
        await stream.take(batch, tables);
        const credit = () => this.send({ type: "credit", bytes: message.bytes, copy: null, isBeside: false });
        // What opens the gate is to be handled meanwhile.
        if (gate.isFull) void gate.ample().then(credit);
        else credit();
        if (divided.takeDue(stream.resumeLsn)) this.send({ type: "due" });
        return this.#awaitOwed();
      }
      case "flush":
        await this.#begun().stream.flush();
        return this.#done(message.id);
      default:
        return await this.#desk.handle(message);
    }
  }

  async #open(): Promise<DeliveryState> {
    const saved = await this.tools.store.load();
    if (saved === null) return { checkpoint: null, missing: [] };
    const stored = parseRecord(saved);
    if (stored.kind === "forgotten") {
      this.#forgottenVersion = stored.lastVersion;
      return { checkpoint: null, missing: [] };
    }
    const { record } = stored;
    this.#start(record, new SavedTables(stored.isParted ? record : noTables));
    return { checkpoint: placed(record.checkpoint, record.log), missing: [] };
  }

  async #begin(checkpoint: Checkpoint): Promise<void> {
    if (this.#delivering) throw new MillraceError("internal", "the webhook sink has begun already");
    // Rows that were sent before everything was forgotten must not be newer than the ones that come now.
    const least = this.#forgottenVersion + 1n;
    const lastVersion = checkpoint.lastVersion > least ? checkpoint.lastVersion : least;
    const record: SinkRecord = {
      checkpoint: { resumeLsn: checkpoint.resumeLsn, partial: checkpoint.partial, lastVersion },
      log: checkpoint.log ?? null,
      origin: { lsn: checkpoint.resumeLsn, version: lastVersion },
      windowEnds: [],
      reached: null,
      versionSteps: [],
      ...noTables,
    };
    this.#start(record, new SavedTables(noTables));
    await this.#begun().keeper.save();
  }

  async #forget(): Promise<void> {
    if (!this.#delivering) return;
    const { keeper, stream } = this.#delivering;
    await stream.flush();
    await keeper.settled();
    const { checkpoint, versionSteps } = keeper.record;
    const lastStep = versionSteps.at(-1)?.version ?? 0n;
    const isBehind = lastStep > checkpoint.lastVersion;
    const lastVersion = isBehind ? lastStep : checkpoint.lastVersion;
    await keeper.forget(lastVersion);
    this.#forgottenVersion = lastVersion;
    this.#delivering = null;
  }

  #start(record: SinkRecord, saved: SavedTables): void {
    const { store, monotonic } = this.tools;
    const keeper = new RecordKeeper(store, record, saved, monotonic, spacingOf(this.#flushIntervalMs));
    const divided = new DividedCopies(keeper, this.#encoding, monotonic);
    const keyless = new KeylessCopies(keeper, this.#encoding.sends("read"));
    const gate = new CopyGate();
    const stream = new StreamWindows({
      batch: this.#limits(),
      window: {
        maxBytes: windowBytes,
        maxChanges: Math.min(windowChanges, this.connector.limits.cdc.max_buffer_rows || windowChanges),
      },
      rows: this.#rows(record, divided),
      ...{ keyless, gate, keeper },
      scheduler: this.#scheduler,
      durable: ({ checkpoint, rows, bytes }) => {
        this.send({ type: "durable", checkpoint: placed(checkpoint, keeper.record.log), rows, bytes });
      },
      failed: (error) => this.#fail(error),
      monotonic,
      breathe,
    });
    this.#delivering = { keeper, stream, divided, keyless, gate };
  }

  #rows({ checkpoint }: SinkRecord, divided: DividedCopies): ChangeRows {
    const { transactions } = this.#encoding;
    const { isBare } = this.#limits();
    const counts =
      transactions && new TransactionCounts({ ...transactions, isBare }, checkpoint.transaction ?? null);
    const watches = [divided, this.#besides];
    return new ChangeRows(Number(checkpoint.lastVersion), this.#encoding, watches, counts);
  }

  async #prepare({
    tables,
    unreadable,
  }: Extract<DeliveryMessage, { type: "prepare" }>): Promise<DeliveryState> {
    const { keeper, stream, divided } = this.#begun();
    const prepared = await keeper.prepare(tables, unreadable);
    this.#awaitOwed();
    return { ...prepared, owed: divided.due(stream.resumeLsn) };
  }

  /** A quiet source would not say for long that all of its log was sent up to there. */
  #awaitOwed(): void {
    const { divided, stream } = this.#begun();
    const lsn = divided.awaited(stream.resumeLsn);
    if (lsn !== null) this.send({ type: "awaits", lsn });
  }

  /** Null while time has nothing to do. */
  get #timed(): StreamWindows | null {
    return this.#failed ? null : (this.#delivering?.stream ?? null);
  }

  get #flushIntervalMs(): number {
    return this.connector.limits.cdc.flush_interval_ms || defaultFlushIntervalMs;
  }

  #limits() {
    const { batch } = configuredSink(this.connector);
    const { max_batch_size: maxRows, max_payload_bytes: maxBytes } = batch;
    return { maxRows, maxBytes, isBare: maxRows === 1 };
  }

  #table(handle: number): CompiledTable {
    const table = this.#tables.get(handle);
    if (!table) throw new MillraceError("internal", "a batch names a relation that was not announced");
    return table;
  }

  #begun(): Delivering {
    if (!this.#delivering) throw new MillraceError("internal", "the webhook sink has not begun");
    return this.#delivering;
  }

  #breakOff(): void {
    this.#copies.breakOff();
    this.#besides.breakOff();
    this.#wholes.breakOff();
    this.#delivering?.gate.breakOff();
  }

  #done(id: number): void {
    this.send({ type: "reply", id, state: null });
  }

  #fail(error: unknown): void {
    if (this.#failed) return;
    this.#failed = true;
    const { code, message } = toMillraceError(error);
    this.send({ type: "failed", code, message });
    this.#breakOff();
    void this.#scheduler.drain(AbortSignal.abort(error));
  }
}
