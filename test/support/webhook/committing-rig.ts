// A sink of messages over a transport that commits messages and record together, as Kafka's transactions do, in one thread and in memory.

import type { SavedRecord } from "../../../src/connector/saved-record.ts";
import { MillraceError } from "../../../src/errors/millrace-error.ts";
import { DeliverySession } from "../../../src/sink/delivery/delivery-session.ts";
import { LineServer } from "../../../src/sink/delivery/line/line-server.ts";
import { createMessageSink } from "../../../src/sink/delivery/message-sink.ts";
import type { PlannedRow } from "../../../src/sink/delivery/stream/request-plan.ts";
import type { Outlet, Transport } from "../../../src/sink/delivery/transport.ts";
import { type CompiledTable, compileTable } from "../../../src/sink/format/compiled-table.ts";
import { ByteWriter } from "../../../src/sink/format/values/byte-writer.ts";
import { kafkaSettings } from "../../../src/sink/kafka/kafka-settings.ts";
import type { Sink } from "../../../src/sink/sink.ts";
import { sampleConfig, sampleRequest } from "../api/sample-connector.ts";
import { eventsTo, nothingTold } from "../contract/bench.ts";
import { withSave } from "./memory-record.ts";
import type { RecordStore } from "./webhook-rig.ts";

/** A row that was committed: its table, its `v`, and its operation's place among those that were added. */
export type CommittedRow = `${string} ${string}`;

export interface CommittingRig extends AsyncDisposable {
  readonly sink: Sink;
  readonly told: ReturnType<typeof nothingTold>;
  /** Rows of each commit, in order; commits of the record alone are left out. */
  readonly commits: readonly (readonly CommittedRow[])[];
  /** The record as each of `commits` has left it. */
  readonly records: readonly SavedRecord[];
}

export interface CommittingOptions {
  /** How long a commit takes. */
  readonly saveMs?: number;
  /** A window ends after so many changes. */
  readonly windowRows?: number;
  /** A row that cannot be added. */
  readonly refuses?: (row: CommittedRow) => boolean;
}

interface Committed {
  readonly commits: CommittedRow[][];
  readonly records: SavedRecord[];
}

/** `commitWithinMs`: after so long it commits amid a transaction. */
export function committingRig(
  store: RecordStore,
  commitWithinMs = 60_000,
  options: CommittingOptions = {},
): CommittingRig {
  const kafka = {
    connection: { brokers: ["127.0.0.1:1"] },
    format: { native: {} },
    topic_options: {},
  };
  const limits = { cdc: { flush_interval_ms: 5, max_buffer_rows: options.windowRows ?? 0 } };
  const connector = sampleConfig("rig", { ...sampleRequest(), sink: { kafka }, limits });
  const { delivery: settings } = kafkaSettings(connector);
  const committed: Committed = { commits: [], records: [] };
  const { port1, port2 } = new MessageChannel();
  const tools = {
    transport: () => new CommittingTransport(settings.encoding, store, committed, commitWithinMs, options),
    store: { load: async () => null, save: async () => {} },
    log: () => {},
    monotonic: () => performance.now(),
  };
  const server = new LineServer(port2, (send) => new DeliverySession(settings, tools, send));
  const told = nothingTold();
  const ended = new AbortController();
  const context = { signal: ended.signal, makesCopies: true, events: eventsTo(told, () => {}) };
  const sink = createMessageSink(context, port1);
  return {
    sink,
    told,
    ...committed,
    async [Symbol.asyncDispose]() {
      await sink[Symbol.asyncDispose]();
      await server.close();
      port1.close();
    },
  };
}

class CommittingTransport implements Transport {
  readonly isOver = false;
  readonly store: Transport["store"];
  #added: CommittedRow[] = [];

  constructor(
    private readonly encoding: ReturnType<typeof kafkaSettings>["encoding"],
    kept: RecordStore,
    { commits, records }: Committed,
    readonly commitWithinMs: number,
    private readonly options: CommittingOptions,
  ) {
    this.store = {
      load: async () => kept.record,
      save: async (text, parts) => {
        const added = this.#added.splice(0);
        await Bun.sleep(options.saveMs ?? 1);
        kept.record = withSave(kept.record, text, parts);
        if (added.length === 0) return;
        commits.push(added);
        records.push(kept.record);
      },
    };
  }

  async prepare(): Promise<void> {}

  compile(relation: Parameters<Transport["compile"]>[0]): CompiledTable {
    return compileTable(relation, this.encoding.compile(relation));
  }

  stream(options: Parameters<Transport["stream"]>[0]) {
    return Object.assign(this.chunk(options), { addBoundary: () => {}, tookVersion: () => {} });
  }

  chunk({ sent }: Pick<Parameters<Transport["chunk"]>[0], "sent">): Outlet {
    return {
      addRow: ({ name, encoder }: CompiledTable, row: PlannedRow) => {
        const out = new ByteWriter();
        encoder.writeRow(out, row.arena, row.before, row.after, row.context);
        const { v } = JSON.parse(Buffer.from(out.slice()).toString());
        const added: CommittedRow = `${name} ${v}`;
        if (this.options.refuses?.(added))
          throw new MillraceError("kafka_message_too_large", `It refuses ${added}.`);
        this.#added.push(added);
        sent(1, out.length)();
      },
      seal: () => {},
      hasCapacity: true,
      untilCapacity: async () => {},
    };
  }

  async drain(): Promise<void> {}
  async close(): Promise<void> {}
}
