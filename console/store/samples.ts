// The last ten minutes of every connector's figures, for the list: what the service has kept, then what is added.

import type { SampleList } from "../../src/connector/service/samples.ts";
import { type Api, answer } from "../api/client.ts";
import {
  type Keeping,
  lastEnd,
  type Measure,
  type SampleSeries,
  withSamples,
} from "../connector/sample-series.ts";
import type { Connectors } from "./connectors.ts";
import { type Readable, Store } from "./store.ts";

/** Of a thousand connectors: no more than the list shows. */
const keeping = {
  measures: ["rows_durable", "lag_seconds", "lag_bytes"],
  seconds: 600,
} as const satisfies Keeping<Measure>;

export type Figures = SampleSeries<(typeof keeping.measures)[number]>;

export interface SampledConnectors {
  readonly stepSeconds: number;
  readonly byId: ReadonlyMap<string, Figures>;
}

export const noSamples: SampledConnectors = { stepSeconds: 5, byId: new Map() };

/** Polls while the page is visible. */
export class Samples {
  readonly store = new Store<SampledConnectors>(noSamples);
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isStopped = false;

  constructor(
    private readonly api: Api,
    private readonly connectors: Readable<Connectors | null>,
  ) {}

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
      const since = lastEnd(this.store.value.byId.values());
      const added = await answer(this.api.samples.get({ query: since === null ? {} : { since } }));
      this.store.set(withAnswer(this.store.value, added, this.connectors.value));
    } catch {
      // The state of the link says that the service does not answer.
    }
  }
}

/** @param connectors those that there are; others are forgotten. Null: not known yet */
export function withAnswer(
  known: SampledConnectors,
  { step_seconds, samples }: SampleList,
  connectors: Connectors | null,
): SampledConnectors {
  const isThere = (id: string) => connectors?.has(id) ?? true;
  const byId = new Map([...known.byId].filter(([id]) => isThere(id)));
  for (const added of samples) {
    const id = added.connector_id;
    const series = withSamples(byId.get(id) ?? null, added, step_seconds, keeping);
    if (series && isThere(id)) byId.set(id, series);
  }
  return { stepSeconds: step_seconds, byId };
}

/** Ten minutes, also where less is known: what a line shows then keeps its place. */
export function wholeWindow({ rows_durable: rows, stepSeconds }: Figures): (number | null)[] {
  return [...Array<null>(Math.ceil(keeping.seconds / stepSeconds) - rows.length).fill(null), ...rows];
}
