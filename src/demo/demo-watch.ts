// Polls the demo's connectors through the API and displays their progress until a condition holds.

import type { ConnectorStatus } from "../connector/status.ts";
import { describeConnector, number, type RateSample, rowsPerSecond, withSample } from "./connector-view.ts";
import { type DemoStage, kafkaConnector } from "./demo-stage.ts";
import type { LiveDisplay } from "./live-display.ts";

const intervalMs = 200;

/** What the load has written so far. */
export interface LoadCount {
  rows: number;
  transactions: number;
}

export interface Observation {
  readonly statuses: ReadonlyMap<string, ConnectorStatus>;
  readonly elapsedMs: number;
}

export class DemoWatch {
  readonly #samples = new Map<string, readonly RateSample[]>();
  readonly #startedMs = performance.now();

  constructor(
    private readonly stage: DemoStage,
    private readonly display: LiveDisplay,
    private readonly load: LoadCount,
  ) {}

  /**
   * Displays progress until `isOver` returns true. Throws `signal.reason`, or the reason of a connector that failed.
   */
  async until(isOver: (seen: Observation) => boolean, signal: AbortSignal): Promise<void> {
    while (true) {
      signal.throwIfAborted();
      const seen = await this.#observe();
      this.display.show(this.#lines(seen));
      if (isOver(seen)) return;
      await Bun.sleep(intervalMs);
    }
  }

  async #observe(): Promise<Observation> {
    const statuses = new Map<string, ConnectorStatus>();
    for (const id of this.stage.connectorIds) {
      const { status } = await this.stage.api.connector(id);
      if (status.status.failed) throw new Error(`${id} failed: ${status.status.failed.reason}`);
      const rows = status.progress?.rows_durable ?? 0;
      this.#samples.set(id, withSample(this.#samples.get(id) ?? [], { atMs: performance.now(), rows }));
      statuses.set(id, status);
    }
    return { statuses, elapsedMs: performance.now() - this.#startedMs };
  }

  #lines({ statuses, elapsedMs }: Observation): string[] {
    const connectors = [...statuses].map(([id, status]) =>
      describeConnector(id, status, rowsPerSecond(this.#samples.get(id) ?? [])),
    );
    return [
      `  ${(elapsedMs / 1000).toFixed(1)} s   ${number(this.load.rows)} rows changed in ${number(this.load.transactions)} transactions`,
      ...connectors,
      `  receiver      ${number(this.stage.receiver.requests)} deliveries`,
    ];
  }
}

/** Whether everything that was written is durable at the Kafka sink. */
export function hasCaughtUp({ statuses }: Observation): boolean {
  return statuses.get(kafkaConnector)?.progress?.lag_seconds === 0;
}

/** Whether every connector has finished its initial copy and streams changes. */
export function isStreaming({ statuses }: Observation): boolean {
  return [...statuses.values()].every((status) => status.state.realtime !== undefined);
}
