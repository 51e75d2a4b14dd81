// A transport that sends requests, each on its own: rows of one table as a body. The scheduler sends those that share no row side by side,
// and tries again.

import type { Checkpoint, Position } from "../../../change/checkpoint.ts";
import { type Lsn, zeroLsn } from "../../../change/lsn.ts";
import type { Relation } from "../../../change/relation.ts";
import type { OpenRequest, RowQuestion } from "../../../connector/receipts.ts";
import { type CompiledTable, compileTable } from "../../format/compiled-table.ts";
import type { CheckpointStore } from "../../sink.ts";
import type { DeliverySettings, RequestSettings } from "../delivery-settings.ts";
import { type ParkingPlace, type ParkingSet, parkingSet } from "../parking/parking-set.ts";
import { textsDigest } from "../receipts/key-digest.ts";
import { openRequests, unsavedRequests } from "../receipts/open-requests.ts";
import { ReceiptKeeping, type ReceiptPlace } from "../receipts/receipt-keeping.ts";
import { ReceiptedRequests } from "../receipts/receipted-requests.ts";
import { strictHash } from "../stream/change-rows.ts";
import type { OutgoingRequest } from "../stream/outgoing-request.ts";
import { type PlannedRow, RequestPlan } from "../stream/request-plan.ts";
import { SecuredRequests } from "../stream/secured-requests.ts";
import type {
  ChunkOutletOptions,
  OpenTransport,
  Outlet,
  StreamOutlet,
  StreamOutletOptions,
  Transport,
} from "../transport.ts";
import type { Attempt } from "./attempt.ts";
import { AttemptPlaces } from "./attempt-places.ts";
import { Scheduler } from "./scheduler.ts";
import { schedulerOptions } from "./scheduler-options.ts";

/** Milliseconds of a clock that never goes back, what makes waits, and where messages are parked and receipts are kept; absent: nowhere. */
export type RequestTools = Parameters<typeof schedulerOptions>[1] & {
  readonly parking?: ParkingPlace;
  readonly receipts?: ReceiptPlace | undefined;
};

export function requestTransport(
  settings: RequestSettings,
  attempt: Attempt,
  tools: RequestTools,
): OpenTransport {
  return (events, store) => {
    const { parking: place, receipts: kept } = tools;
    const keeping = kept ? new ReceiptKeeping(kept) : null;
    const receipted = keeping && kept ? new ReceiptedRequests(keeping.book, kept.nowMs) : null;
    const watch = receipted ?? undefined;
    const parkingStore = place && (receipted?.parkingStore(place.store) ?? place.store);
    const places = new AttemptPlaces(settings.maxInFlight);
    const parkedAt = place && parkingStore ? { ...place, store: parkingStore } : null;
    const set = parkedAt
      ? parkingSet(settings, attempt, events, { ...tools, watch, places, place: parkedAt })
      : null;
    const undeliverable = set ? (receipted?.undeliverable(set.parking) ?? set.parking) : undefined;
    const options = schedulerOptions(settings, tools, undeliverable, watch, places);
    const scheduler = new Scheduler(attempt, options, events);
    const receipts = keeping && receipted ? { keeping, receipted } : null;
    return new RequestTransport(settings, scheduler, store, set, receipts);
  };
}

/** The receipts of a session's requests. */
interface KeptReceipts {
  readonly keeping: ReceiptKeeping;
  readonly receipted: ReceiptedRequests;
}

export class RequestTransport implements Transport {
  readonly commitWithinMs = null;
  readonly store: CheckpointStore;

  constructor(
    private readonly settings: Pick<DeliverySettings, "batch" | "encoding">,
    private readonly scheduler: Scheduler,
    record: CheckpointStore,
    private readonly set: ParkingSet | null = null,
    private readonly receipts: KeptReceipts | null = null,
  ) {
    const stored = receipts?.keeping.store(record) ?? record;
    // What earlier runs have parked is known before anything is sent.
    const load = async () => {
      await set?.begin();
      return await stored.load();
    };
    this.store = { load, save: (text, parts) => stored.save(text, parts) };
  }

  get keepsReceipts(): boolean {
    return this.receipts !== null;
  }

  get isOver(): boolean {
    return this.scheduler.isOver;
  }

  /** A receiver needs nothing. Receipts need to know the tables. */
  async prepare(relations: readonly Relation[]): Promise<void> {
    await this.receipts?.keeping.prepare(relations);
  }

  async compile(relation: Relation): Promise<CompiledTable> {
    await this.receipts?.keeping.changed(relation);
    return compileTable(relation, this.settings.encoding.compile(relation));
  }

  stream(options: StreamOutletOptions): StreamOutlet {
    const { scheduler, settings } = this;
    const { sent, save, reach, failed } = options;
    // Where a request is one row, boundaries decide nothing.
    const cutsMatter = settings.batch.maxRows !== 1;
    const secured = new SecuredRequests({ save, scheduler, cutsMatter, reach, failed });
    const submit = (request: OutgoingRequest) =>
      secured.submit(request, sent(request.rows, request.body.length));
    const plan = new RequestPlan(settings.batch, submit, this.#marksRows, this.receipts !== null);
    const book = this.receipts?.keeping.book;
    if (book) book.save = save;
    return {
      addRow: (table: CompiledTable, row: PlannedRow) => plan.addRow(table, row),
      addBoundary: submit,
      seal: () => plan.sealAll().forEach(submit),
      tookVersion: () => secured.tookVersion(),
      get hasCapacity() {
        return scheduler.hasCapacity && (book?.hasSpace ?? true);
      },
      untilCapacity: async () => {
        await scheduler.untilCapacity();
        if (!scheduler.isOver) await book?.untilSpace();
      },
    };
  }

  chunk({ sent, isIncremental, maxRows }: ChunkOutletOptions): Outlet {
    const book = this.receipts?.keeping.book;
    const { scheduler, settings } = this;
    const { batch } = settings;
    const most = Math.min(batch.maxRows || Number.POSITIVE_INFINITY, maxRows);
    const submit = (request: OutgoingRequest) =>
      void scheduler.submit(request, sent(request.rows, request.body.length), false, isIncremental);
    const plan = new RequestPlan(
      { ...batch, maxRows: Number.isFinite(most) ? most : 0 },
      submit,
      this.#marksRows,
      this.receipts !== null,
    );
    return {
      addRow: (table: CompiledTable, row: PlannedRow) => plan.addRow(table, row),
      seal: () => plan.sealAll().forEach(submit),
      get hasCapacity() {
        const isFree = isIncremental ? scheduler.hasCopyCapacity : scheduler.hasCapacity;
        return isFree && (book?.hasSpace ?? true);
      },
      untilCapacity: async () => {
        await (isIncremental ? scheduler.untilCopyCapacity() : scheduler.untilCapacity());
        if (!scheduler.isOver) await book?.untilSpace();
      },
    };
  }

  passed(checkpoint: Checkpoint, areCopiesOpen: boolean): void {
    this.set?.parking.passed(checkpoint, areCopiesOpen);
  }

  get keptReach(): Lsn {
    return this.set?.parking.entries.reach ?? zeroLsn;
  }

  replaysUntil(position: Position | null): void {
    this.set?.parking.replaysUntil(position);
  }

  async drain(signal: AbortSignal): Promise<void> {
    await Promise.all([this.scheduler.drain(signal), this.set?.retry.stop(signal)]);
    this.receipts?.keeping.book.hurry();
  }

  find(question: RowQuestion): readonly OpenRequest[] {
    const { schema, name, key } = question;
    const { keeping, receipted } = this.receipts ?? {};
    const hashes = new Set([textsDigest(key).hash | 0, strictHash]);
    const deliveries = [...hashes].flatMap((hash) => this.scheduler.touching(schema, name, hash));
    return [
      ...unsavedRequests(keeping?.book.unsaved ?? [], question),
      ...deliveries.flatMap((delivery) => openRequests(delivery, receipted?.trials, key)),
    ];
  }

  readonly #marksRows = () => this.set?.parking.mayCut ?? false;

  /** Connections are the sender's. */
  async close(): Promise<void> {
    this.receipts?.keeping.book.close();
  }
}
