// The last ten minutes of every connector's figures, for the list: what the service has kept, then what is added.

import { type Api, answer } from "../api/client.ts";
import { Store } from "./store.ts";

export interface Figures {
  /** Rows that became durable in each step; null: nothing is known. */
  readonly rows: readonly (number | null)[];
  readonly lagSeconds: number | null;
  readonly lagBytes: number | null;
}

export interface SampledConnectors {
  readonly stepSeconds: number;
  readonly byId: ReadonlyMap<string, Figures>;
}

type Answer = Awaited<ReturnType<typeof load>>;

const keptSteps = 120;

export const noSamples: SampledConnectors = { stepSeconds: 5, byId: new Map() };

function load(api: Api, since: string | null) {
  return answer(api.samples.get({ query: since === null ? {} : { since } }));
}

/** Polls while the page is visible. */
export class Samples {
  readonly store = new Store<SampledConnectors>(noSamples);
  #since: string | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isStopped = false;

  constructor(private readonly api: Api) {}

  start(): void {
    void this.#next();
  }

  stop(): void {
    this.#isStopped = true;
    clearTimeout(this.#timer);
  }

  async #next(): Promise<void> {
    if (!document.hidden) await this.#load();
    if (!this.#isStopped)
      this.#timer = setTimeout(() => void this.#next(), this.store.value.stepSeconds * 1000);
  }

  async #load(): Promise<void> {
    try {
      const added = await load(this.api, this.#since);
      this.store.set(withAnswer(this.store.value, added));
      this.#since = lastStepEnd(added) ?? this.#since;
    } catch {
      // The state of the link says that the service does not answer.
    }
  }
}

export function withAnswer(known: SampledConnectors, { step_seconds, samples }: Answer): SampledConnectors {
  const byId = new Map(known.byId);
  for (const { connector_id, rows_durable, lag_seconds, lag_bytes } of samples) {
    const before = byId.get(connector_id);
    byId.set(connector_id, {
      rows: [...(before?.rows ?? []), ...rows_durable].slice(-keptSteps),
      lagSeconds: lag_seconds.at(-1) ?? null,
      lagBytes: lag_bytes.at(-1) ?? null,
    });
  }
  return { stepSeconds: step_seconds, byId };
}

/** The end of the newest step, to ask from there on; null: there was none. `first_at` is the end of the first one. */
export function lastStepEnd({ step_seconds, samples }: Answer): string | null {
  const ends = samples.map(
    ({ first_at, rows_durable }) => Date.parse(first_at) + (rows_durable.length - 1) * step_seconds * 1000,
  );
  return ends.length === 0 ? null : new Date(Math.max(...ends)).toISOString();
}

/** Ten minutes, also where less is known: what a line shows then keeps its place. */
export function wholeWindow({ rows }: Figures): (number | null)[] {
  return [...Array<null>(keptSteps - rows.length).fill(null), ...rows];
}

/** Rows a second in the last step that is known; null: none is. */
export function rateOf({ rows }: Figures, stepSeconds: number): number | null {
  const last = rows.at(-1) ?? null;
  return last === null ? null : last / stepSeconds;
}
