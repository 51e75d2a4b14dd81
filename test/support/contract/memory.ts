// The sink that holds its rows in memory on the bench of the sinks' contract: what keeps that is no more than the contract asks for.

import { MillraceError } from "../../../src/errors/millrace-error.ts";
import type { Sink } from "../../../src/sink/sink.ts";
import { waitFor } from "../wait-for.ts";
import {
  eventsTo,
  type LifeOptions,
  nothingTold,
  refusedValue,
  type SinkBench,
  type SinkGround,
  type SinkKind,
  type SinkLife,
} from "./bench.ts";
import { type ContractRow, sorted, type TableName } from "./history.ts";
import { memorySink } from "./memory-sink.ts";
import { MemoryStore } from "./memory-store.ts";

export const memoryKind: SinkKind = {
  name: "memory",
  isTransactional: true,
  removesRows: true,
  takesRanges: false,
  asksForRows: false,
  async start(): Promise<SinkGround> {
    return { bench: async () => new MemoryBench(), [Symbol.asyncDispose]: async () => {} };
  },
};

class MemoryBench implements SinkBench {
  readonly #store = new MemoryStore();
  /** What each change waits for. */
  #quiet: Promise<void> = Promise.resolve();
  #speak: () => void = () => {};
  #waiting = 0;

  async live({ durable }: LifeOptions = {}): Promise<SinkLife> {
    const life = new MemoryLife(this.#store, durable);
    this.#store.admit = async () => {
      this.#waiting++;
      await this.#quiet;
      this.#waiting--;
      life.step();
    };
    return life;
  }

  async rows(table: TableName): Promise<readonly ContractRow[]> {
    const held = this.#store.held.tables.get(`public.${table}`)?.rows.values().toArray() ?? [];
    return sorted(held.map(({ id, v }) => ({ id: Number(id), v: String(v) })));
  }

  /** It cannot be told anything twice: the checkpoint moves with the rows. */
  contradictions(): readonly string[] {
    return [];
  }

  async keepBusy(): Promise<void> {
    this.silence();
  }

  async metBusy(): Promise<void> {
    await waitFor("a change that waits", () => this.#waiting > 0);
  }

  silence(): void {
    this.#quiet = new Promise((resolve) => {
      this.#speak = resolve;
    });
  }

  async answer(): Promise<void> {
    this.#speak();
  }

  async refuse(isRefused: boolean): Promise<void> {
    this.#store.check = ({ tables }) => {
      const rows = tables.get("public.entries")?.rows.values().toArray() ?? [];
      if (isRefused && rows.some(({ v }) => v === refusedValue))
        throw new MillraceError("sink_rejected_rows", "It is refused.");
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {}
}

class MemoryLife implements SinkLife {
  readonly told = nothingTold();
  readonly sink: Sink;
  readonly #ended = new AbortController();
  #steps = Number.POSITIVE_INFINITY;
  #arrives = true;
  isDead = false;

  constructor(store: MemoryStore, durable: LifeOptions["durable"]) {
    const events = eventsTo(this.told, (checkpoint) => durable?.(checkpoint, this));
    this.sink = memorySink(store, { signal: this.#ended.signal, events });
  }

  stop(reason: Error): void {
    this.#ended.abort(reason);
  }

  dieIn(steps: number): void {
    this.#steps = steps;
    this.#arrives = steps % 2 === 0;
  }

  /** A change is asked for. Throws where it does not arrive. */
  step(): void {
    this.#ended.signal.throwIfAborted();
    if (--this.#steps !== 0) return;
    this.#die();
    if (!this.#arrives) throw this.#ended.signal.reason;
  }

  async kill(): Promise<void> {
    this.#die();
  }

  #die(): void {
    this.isDead = true;
    this.#ended.abort(new Error("killed"));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.sink[Symbol.asyncDispose]();
  }
}
