// A real HTTP server on the bench of the sinks' contract, with the real worker before it, and a state store that outlives both.

import type { Sink } from "../../../src/sink/sink.ts";
import { heldInOrder, keysThatWentBack, rowsOf } from "../oracles/webhook-oracles.ts";
import { waitFor } from "../wait-for.ts";
import { type ReceiverAction, WebhookReceiver } from "../webhook/webhook-receiver.ts";
import { RecordStore, WebhookRig, webhookConnector } from "../webhook/webhook-rig.ts";
import {
  eventsTo,
  type LifeOptions,
  nothingTold,
  refusedValue,
  type SinkBench,
  type SinkGround,
  type SinkKind,
  type SinkLife,
  type Told,
} from "./bench.ts";
import { type ContractRow, sorted, type TableName } from "./history.ts";

export const webhookKind: SinkKind = {
  name: "webhook",
  isTransactional: false,
  removesRows: false,
  takesRanges: true,
  asksForRows: true,
  async start(): Promise<SinkGround> {
    return {
      bench: async () => new WebhookBench(await WebhookReceiver.start()),
      [Symbol.asyncDispose]: async () => {},
    };
  },
};

const retry = { max_retries: 0, max_retry_duration_ms: 0, initial_backoff_ms: 5, max_backoff_ms: 20 };

class WebhookBench implements SinkBench {
  readonly #store = new RecordStore();
  #mood: "takes" | "busy" | "silent" = "takes";
  #isRefusing = false;
  #metBusy = false;
  /** Hears of all that is asked of the receiver or the state; false: it does not arrive. */
  #heard: () => boolean = () => true;
  #speak: () => void = () => {};

  constructor(private readonly receiver: WebhookReceiver) {
    receiver.script = ({ body }) => this.#answerTo(body);
    this.#store.admit = () => this.#heard();
  }

  async live({ durable }: LifeOptions = {}): Promise<SinkLife> {
    const { url } = this.receiver;
    const limits = { cdc: { flush_interval_ms: 5 } };
    const connector = webhookConnector(url, { batch: { max_batch_size: 7 }, retry }, { limits });
    const life = new WebhookLife(await WebhookRig.start(connector, this.#store), durable);
    this.#heard = () => life.step();
    return life;
  }

  async rows(table: TableName): Promise<readonly ContractRow[]> {
    const rows =
      table === "accounts" ? heldInOrder(this.receiver, table).values() : rowsOf(this.receiver, table);
    return sorted([...rows].map(({ id, v }) => ({ id: Number(id), v: String(v) })));
  }

  contradictions(): readonly string[] {
    const bodies = new Map<string, string>();
    const others = this.receiver.requests.flatMap(({ headers, body }) => {
      const key = headers["idempotency-key"] ?? "none";
      const isOther = (bodies.get(key) ?? body) !== body;
      bodies.set(key, body);
      return isOther ? [`${key} came with another body`] : [];
    });
    const back = keysThatWentBack(rowsOf(this.receiver, "accounts"));
    return [...others, ...back.map((id) => `account ${id} went back to an older version`)];
  }

  async keepBusy(): Promise<void> {
    this.#mood = "busy";
    this.#metBusy = false;
  }

  async metBusy(): Promise<void> {
    await waitFor("a request that meets a busy receiver", () => this.#metBusy);
  }

  silence(): void {
    this.#mood = "silent";
    this.#store.silence = new Promise((resolve) => {
      this.#speak = resolve;
    });
  }

  async answer(): Promise<void> {
    this.#mood = "takes";
    this.#store.silence = null;
    this.#speak();
  }

  async refuse(isRefused: boolean): Promise<void> {
    this.#isRefusing = isRefused;
  }

  #answerTo(body: string): ReceiverAction | number | undefined {
    if (!this.#heard()) return { kind: "reset" };
    if (this.#mood === "silent") return { kind: "hang" };
    if (this.#mood === "busy") {
      this.#metBusy = true;
      return 503;
    }
    return this.#isRefusing && body.includes(`"${refusedValue}"`) ? 410 : undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.receiver[Symbol.asyncDispose]();
  }
}

class WebhookLife implements SinkLife {
  readonly told: Told = nothingTold();
  readonly sink: Sink;
  isDead = false;
  #steps = Number.POSITIVE_INFINITY;
  #arrives = true;

  constructor(
    private readonly rig: WebhookRig,
    durable: LifeOptions["durable"],
  ) {
    this.sink = rig.sink(eventsTo(this.told, (checkpoint) => durable?.(checkpoint, this)));
  }

  stop(reason: Error): void {
    this.rig.abort(reason);
  }

  dieIn(steps: number): void {
    this.#steps = steps;
    this.#arrives = steps % 2 === 0;
  }

  /** Something is asked. Returns whether that arrives. */
  step(): boolean {
    if (this.isDead) return false;
    if (--this.#steps !== 0) return true;
    void this.kill();
    return this.#arrives;
  }

  async kill(): Promise<void> {
    this.isDead = true;
    await this.rig.kill();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.rig[Symbol.asyncDispose]();
  }
}
