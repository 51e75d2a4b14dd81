// A transport that sends requests, each on its own: rows of one table as a body. The scheduler sends those that share no row side by side,
// and tries again.

import type { Position } from "../../../change/checkpoint.ts";
import type { Relation } from "../../../change/relation.ts";
import { type CompiledTable, compileTable } from "../../format/compiled-table.ts";
import type { CheckpointStore } from "../../sink.ts";
import type { DeliverySettings, RequestSettings } from "../delivery-settings.ts";
import { type ParkingPlace, type ParkingSet, parkingSet } from "../parking/parking-set.ts";
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
import { Scheduler } from "./scheduler.ts";
import { schedulerOptions } from "./scheduler-options.ts";

/** Milliseconds of a clock that never goes back, what makes waits, and where messages are parked; absent: nowhere. */
export type RequestTools = Parameters<typeof schedulerOptions>[1] & { readonly parking?: ParkingPlace };

export function requestTransport(
  settings: RequestSettings,
  attempt: Attempt,
  tools: RequestTools,
): OpenTransport {
  return (events, store) => {
    const place = tools.parking;
    const set = place ? parkingSet(settings, attempt, events, { ...tools, place }) : null;
    const options = schedulerOptions(settings, tools, set?.parking);
    return new RequestTransport(settings, new Scheduler(attempt, options, events), store, set);
  };
}

export class RequestTransport implements Transport {
  readonly commitWithinMs = null;
  readonly store: CheckpointStore;

  constructor(
    private readonly settings: Pick<DeliverySettings, "batch" | "encoding">,
    private readonly scheduler: Scheduler,
    record: CheckpointStore,
    private readonly set: ParkingSet | null = null,
  ) {
    // What earlier runs have parked is known before anything is sent.
    const load = async () => {
      await set?.begin();
      return await record.load();
    };
    this.store = { load, save: (text, parts) => record.save(text, parts) };
  }

  get isOver(): boolean {
    return this.scheduler.isOver;
  }

  /** A receiver needs nothing. */
  async prepare(): Promise<void> {}

  compile(relation: Relation): CompiledTable {
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
    const plan = new RequestPlan(settings.batch, submit, this.#marksRows);
    return {
      addRow: (table: CompiledTable, row: PlannedRow) => plan.addRow(table, row),
      addBoundary: submit,
      seal: () => plan.sealAll().forEach(submit),
      tookVersion: () => secured.tookVersion(),
      get hasCapacity() {
        return scheduler.hasCapacity;
      },
      untilCapacity: () => scheduler.untilCapacity(),
    };
  }

  chunk({ sent, isIncremental, maxRows }: ChunkOutletOptions): Outlet {
    const { scheduler, settings } = this;
    const { batch } = settings;
    const most = Math.min(batch.maxRows || Number.POSITIVE_INFINITY, maxRows);
    const submit = (request: OutgoingRequest) =>
      void scheduler.submit(request, sent(request.rows, request.body.length), false, isIncremental);
    const plan = new RequestPlan(
      { ...batch, maxRows: Number.isFinite(most) ? most : 0 },
      submit,
      this.#marksRows,
    );
    return {
      addRow: (table: CompiledTable, row: PlannedRow) => plan.addRow(table, row),
      seal: () => plan.sealAll().forEach(submit),
      get hasCapacity() {
        return isIncremental ? scheduler.hasCopyCapacity : scheduler.hasCapacity;
      },
      untilCapacity: () => (isIncremental ? scheduler.untilCopyCapacity() : scheduler.untilCapacity()),
    };
  }

  passed(version: bigint): void {
    this.set?.parking.passed(Number(version));
  }

  replaysUntil(position: Position | null): void {
    this.set?.parking.replaysUntil(position);
  }

  async drain(signal: AbortSignal): Promise<void> {
    await Promise.all([this.scheduler.drain(signal), this.set?.retry.stop(signal)]);
  }

  readonly #marksRows = () => this.set?.parking.mayCut ?? false;

  /** Connections are the sender's. */
  async close(): Promise<void> {}
}
