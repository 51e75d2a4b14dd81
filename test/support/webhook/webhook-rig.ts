// A webhook sink as it runs: the sink on this side, the real worker on the other, a state store that
// outlives both. A rig is one life of the service; `kill` ends it as SIGKILL would, and another rig over
// the same store goes on.

import type { Checkpoint } from "../../../src/change/checkpoint.ts";
import type { WebhookSinkRequest } from "../../../src/connector/config/webhook-config.ts";
import type { ConnectorConfig, ConnectorRequest } from "../../../src/connector/connector.ts";
import type { SavedRecord } from "../../../src/connector/saved-record.ts";
import type { FromDeliveryWorker, LogLine, ToDeliveryWorker } from "../../../src/runtime/threads/messages.ts";
import type { FromThread, ToThread } from "../../../src/runtime/threads/thread-messages.ts";
import { createMessageSink } from "../../../src/sink/delivery/message-sink.ts";
import type { Sink } from "../../../src/sink/sink.ts";
import type { SinkEvents } from "../../../src/sink/sink-events.ts";
import { sampleConfig, sampleWebhookRequest } from "../api/sample-connector.ts";
import { MemoryParking } from "./memory-parking.ts";
import { MemoryReceipts } from "./memory-receipts.ts";
import { withSave } from "./memory-record.ts";

/** The sink's record, as the state store would keep it. */
export class RecordStore {
  record: SavedRecord | null = null;
  readonly parking = new MemoryParking();
  readonly receipts = new MemoryReceipts();
  /** Saves that were asked for, and that were made. */
  asked = 0;
  saves = 0;
  /** Holds saves back while it is set. */
  gate: Promise<void> | null = null;
  /** Nothing is answered while it is set. */
  silence: Promise<void> | null = null;
  /** Asked before each load and save. False: that does not arrive, and is not answered. */
  admit: () => boolean = () => true;
}

export interface RigReports {
  readonly durable: { readonly checkpoint: Checkpoint; readonly rows: number; readonly bytes: number }[];
  readonly retries: { readonly attempt: number | null; readonly reason: string }[];
  readonly logs: LogLine[];
  /** Requests answered with 2xx, as last told. */
  requests: number;
}

export class WebhookRig implements AsyncDisposable {
  readonly reports: RigReports = { durable: [], retries: [], logs: [], requests: 0 };
  readonly #abort = new AbortController();
  #sinks: Sink[] = [];
  #killed: Promise<void> | null = null;

  private constructor(
    private readonly worker: Worker,
    private readonly line: MessagePort,
  ) {}

  static async start(connector: ConnectorConfig, store: RecordStore): Promise<WebhookRig> {
    const worker = new Worker(new URL("../../../src/delivery.worker.ts", import.meta.url).href);
    const { port1, port2 } = new MessageChannel();
    const rig = new WebhookRig(worker, port1);
    const assignment = 1;
    const post = (message: ToDeliveryWorker, transfer: MessagePort[] = []) =>
      worker.postMessage(
        { type: "message", assignment, message } satisfies ToThread<ToDeliveryWorker>,
        transfer,
      );
    await new Promise<void>((resolve, reject) => {
      worker.onerror = (event) => reject(new Error(event.message));
      worker.onmessage = ({ data }: MessageEvent<FromThread<FromDeliveryWorker>>) => {
        if (data.type === "ready") resolve();
        if (data.type !== "message") return;
        const { message } = data;
        if (message.type === "log") rig.reports.logs.push(message);
        else if (message.type === "attempts") rig.reports.requests = message.requests;
        else if (message.type !== "produced" && message.type !== "row.found")
          void answer(message, store, post);
      };
    });
    post({ type: "start", connector, runId: "run", port: port2 }, [port2]);
    return rig;
  }

  /** A sink of this life; an earlier one must have been disposed of. `events` hears what the reports do. */
  sink(events: Partial<SinkEvents> = {}): Sink {
    const sink = createMessageSink(
      {
        signal: this.#abort.signal,
        makesCopies: true,
        events: {
          setAside: () => {},
          changed: () => {},
          awaits: () => {},
          ...events,
          durable: (checkpoint, rows, bytes) => {
            this.reports.durable.push({ checkpoint, rows, bytes });
            events.durable?.(checkpoint, rows, bytes);
          },
          warning: (topic, reason) => events.warning?.(topic, reason),
          failed: (error) => events.failed?.(error),
          retrying: (attempt, reason) => {
            this.reports.retries.push({ attempt, reason });
            events.retrying?.(attempt, reason);
          },
        },
      },
      this.line,
    );
    this.#sinks.push(sink);
    return sink;
  }

  /** Fires the sink's signal; the worker goes on. */
  abort(reason: Error): void {
    this.#abort.abort(reason);
  }

  /** Ends the worker at once, whatever it is doing. One that has ended tells no more that it does. */
  async kill(): Promise<void> {
    this.#killed ??= this.#kill();
    await this.#killed;
  }

  async #kill(): Promise<void> {
    this.#abort.abort(new Error("killed"));
    this.#sinks = [];
    this.worker.onmessage = () => undefined;
    await ended(this.worker, () => this.worker.terminate());
    this.line.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const sink of this.#sinks) await sink[Symbol.asyncDispose]();
    await this.kill();
  }
}

async function answer(
  request: Extract<FromDeliveryWorker, { type: "store.load" | "store.save" | "parking" | "receipts" }>,
  store: RecordStore,
  post: (message: ToDeliveryWorker) => void,
): Promise<void> {
  if (!store.admit()) return;
  if (store.silence) await store.silence;
  if (request.type === "store.save") {
    store.asked++;
    if (store.gate) await store.gate;
    store.record = withSave(store.record, request.text, request.parts);
    store.receipts.add(request.receipts);
    store.saves++;
  }
  if (request.type === "receipts") store.receipts.answer(request.call);
  if (request.type === "parking") {
    const value = store.parking.answer(request.call);
    return post({ type: "reply", requestId: request.requestId, value });
  }
  const value = request.type === "store.load" ? store.record : null;
  post({ type: "reply", requestId: request.requestId, value });
}

function ended(worker: Worker, end: () => void): Promise<void> {
  return new Promise((resolve) => {
    worker.addEventListener("close", () => resolve(), { once: true });
    end();
  });
}

/** A connector that sends to `url`, in full form, with `change` in its webhook sink. */
export function webhookConnector(
  url: string,
  change: Partial<WebhookSinkRequest> = {},
  request: Partial<ConnectorRequest> = {},
): ConnectorConfig {
  const sample = sampleWebhookRequest();
  const webhook: WebhookSinkRequest = { url, path_template: "{schema}/{table}", ...change };
  return sampleConfig("hooks", { ...sample, sink: { webhook }, ...request });
}
