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
/** So much of an answer is read. */
const maxAnswerBytes = 65_536;

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
    // The status says already whether it arrived.
    const answer = await beginningOf(response).catch(() => "");
    if (!response.ok) return `the collector answered ${response.status}`;
    const rejected = rejectedPoints(answer);
    return rejected > 0 ? `the collector rejected ${rejected} data points` : null;
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

async function beginningOf({ body }: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of body ?? []) {
    chunks.push(chunk);
    length += chunk.length;
    if (length >= maxAnswerBytes) break;
  }
  return Buffer.concat(chunks).toString("utf8");
}

/** A success may be partial. What cannot be read tells of none that were rejected. */
function rejectedPoints(answer: string): number {
  try {
    // JSON has 64-bit numbers as strings in Protobuf's mapping.
    const count = Number(JSON.parse(answer).partialSuccess.rejectedDataPoints);
    return Number.isNaN(count) ? 0 : count;
  } catch {
    return 0;
  }
}
