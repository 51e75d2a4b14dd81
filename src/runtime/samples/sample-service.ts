// Has a sample taken at the end of each step, and answers the API's requests for them.

import type { SampleService } from "../../api/services.ts";
import type { Reading } from "../../connector/service/run-report.ts";
import { type SampleList, stepSeconds } from "../../connector/service/samples.ts";
import type { State } from "../../state/open-state.ts";
import type { StatusWatch } from "../status/status-watch.ts";
import { SampleRecorder, stepMs } from "./sample-recorder.ts";

const hourMs = 3_600_000;
/** Of all connectors at once, without a `since`. */
const overviewMs = 600_000;

export interface SampleContext {
  readonly connectors: Pick<State["connectors"], "get">;
  /** Of all connectors, wherever they run. */
  readonly readings: () => ReadonlyMap<string, Reading>;
  readonly nowMs: () => number;
  /** Never set back. */
  readonly monotonicMs: () => number;
}

export class LiveSampleService implements SampleService, StatusWatch, Disposable {
  readonly #recorder = new SampleRecorder();
  #timer: Timer | undefined;

  constructor(private readonly context: SampleContext) {}

  /** Takes samples until it is disposed of. */
  start(): void {
    const { nowMs, monotonicMs, readings } = this.context;
    this.#recorder.take(readings(), nowMs(), monotonicMs());
    // At the end of a step by the clock, wherever the last timer came.
    this.#timer = setTimeout(() => this.start(), stepMs - (nowMs() % stepMs)).unref();
  }

  forget(connectorId: string): void {
    this.#recorder.forget(connectorId);
  }

  async read(connectorId: string | null, sinceMs: number | null): Promise<SampleList> {
    if (connectorId !== null) await this.context.connectors.get(connectorId);
    const nowMs = this.context.nowMs();
    const earliestMs = nowMs - (connectorId === null && sinceMs === null ? overviewMs : hourMs);
    const samples = this.#recorder.read(connectorId, Math.max(sinceMs ?? earliestMs, earliestMs));
    return { step_seconds: stepSeconds, samples };
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }
}
