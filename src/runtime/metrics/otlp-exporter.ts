// Pushes the metrics to a collector by OTLP/HTTP. A push that fails is not repeated: the next one says the same and more,
// because counters are cumulative. So nothing is queued while the collector is away.
// https://opentelemetry.io/docs/specs/otlp/#otlphttp

import type { Log } from "../../log.ts";
import { failureCode } from "../../sink/http/failure-code.ts";
import { otlpRequest, type PromMetric, SeriesStarts } from "./otlp-encoding.ts";
import type { OtlpSettings } from "./otlp-settings.ts";

export interface OtlpExporterTools {
  readonly collect: () => Promise<readonly PromMetric[]>;
  readonly version: string;
  readonly log: Pick<Log, "info" | "warn">;
  readonly nowMs: () => number;
  /** When the counters began. */
  readonly startMs: number;
  /** Tells this process from others of the same name. */
  readonly instanceId: string;
}

const defaultTimeoutMs = 10_000;

export class OtlpExporter implements Disposable {
  readonly #starts: SeriesStarts;
  readonly #stop = new AbortController();
  #timer: Timer | null = null;
  #pushing: Promise<void> | null = null;
  /** The log says that nothing gets through. */
  #isAway = false;

  constructor(
    private readonly settings: OtlpSettings,
    private readonly tools: OtlpExporterTools,
    private readonly timeoutMs = defaultTimeoutMs,
  ) {
    this.#starts = new SeriesStarts(tools.startMs);
  }

  start(): void {
    this.#timer = setInterval(() => void this.push(), this.settings.intervalMs);
  }

  /** One push at a time: while one is under way this waits for it. Never rejects. */
  push(): Promise<void> {
    this.#pushing ??= this.#push().finally(() => {
      this.#pushing = null;
    });
    return this.#pushing;
  }

  /** Ends a push that is under way. */
  [Symbol.dispose](): void {
    if (this.#timer) clearInterval(this.#timer);
    this.#stop.abort(new Error("stopped"));
  }

  async #push(): Promise<void> {
    let trouble: string | null;
    try {
      trouble = await this.#post(await this.#body());
    } catch (error) {
      // The message may hold the address.
      trouble = failureCode(error);
    }
    if (!this.#stop.signal.aborted) this.#report(trouble);
  }

  async #body(): Promise<string> {
    const { collect, version, nowMs, instanceId } = this.tools;
    const metrics = await collect();
    const now = nowMs();
    const resource = {
      "service.version": version,
      "service.instance.id": instanceId,
      ...this.settings.resource,
    };
    const request = otlpRequest({ version, resource }, metrics, now, this.#starts.startOf);
    this.#starts.collected(now);
    return JSON.stringify(request);
  }

  /** What is wrong; null: it got through. */
  async #post(body: string): Promise<string | null> {
    const { url, headers } = this.settings;
    const response = await fetch(url, {
      method: "POST",
      headers: { "user-agent": "millrace", ...headers, "content-type": "application/json" },
      body,
      // Elsewhere the headers, which may hold credentials, are nobody's business.
      redirect: "manual",
      signal: AbortSignal.any([this.#stop.signal, AbortSignal.timeout(this.timeoutMs)]),
    });
    await response.body?.cancel();
    return response.ok ? null : `the collector answered ${response.status}`;
  }

  #report(trouble: string | null): void {
    const { host } = new URL(this.settings.url);
    if (trouble !== null && !this.#isAway) {
      this.tools.log.warn({ host, reason: trouble }, "metrics do not get through to the OTLP collector");
    }
    if (trouble === null && this.#isAway) {
      this.tools.log.info({ host }, "metrics get through to the OTLP collector again");
    }
    this.#isAway = trouble !== null;
  }
}
