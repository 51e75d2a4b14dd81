// Summarises what the Kafka benchmarks measured, as a line for each case and contender, with its goals.

import { median } from "../measure/report.ts";
import type { KafkaGoals } from "./kafka-cases.ts";

export type KafkaContender = "millrace" | "debezium" | "discard";

/** Of one round. */
export interface KafkaMeasurement {
  readonly case: string;
  readonly by: KafkaContender;
  /** Messages per second. */
  readonly rate: number;
  readonly cpuSecondsPerMillion: number;
  readonly peakBytes: number;
  readonly p50Ms?: number;
  readonly p99Ms?: number;
}

export interface KafkaSummary {
  readonly case: string;
  readonly by: KafkaContender;
  readonly figures: KafkaFigures;
  readonly goals: KafkaGoals;
  /** The goals that were not reached. */
  readonly missed: readonly (keyof KafkaGoals)[];
}

/** Medians, except the peak, which is the highest. */
export interface KafkaFigures {
  readonly rate: number;
  readonly cpuSecondsPerMillion: number;
  readonly peakBytes: number;
  readonly p50Ms: number | null;
  readonly p99Ms: number | null;
  /** The ratio to a stream that discards everything. */
  readonly ofStream: number | null;
  /** millrace's rate, as a ratio to that of Debezium Server. */
  readonly ofDebezium: number | null;
}

/** `streamRates`: of the stream that discards everything, in the same run. Empty for a copy. */
export function summariseKafka(
  measurements: readonly KafkaMeasurement[],
  streamRates: readonly number[],
  goals: KafkaGoals,
): readonly KafkaSummary[] {
  const contenders = [...new Set(measurements.map(({ by }) => by))].sort().toReversed();
  const of = (by: KafkaContender) => measurements.filter((each) => each.by === by);
  const peer = of("debezium").map(({ rate }) => rate);
  return contenders.map((by) => {
    const own = of(by);
    const ratio = (rates: readonly number[]) =>
      rates.length === 0 ? null : median(own.map(({ rate }) => rate)) / median(rates);
    const figures = {
      rate: median(own.map(({ rate }) => rate)),
      cpuSecondsPerMillion: median(own.map((each) => each.cpuSecondsPerMillion)),
      // A median would hide a peak.
      peakBytes: Math.max(...own.map((each) => each.peakBytes)),
      p50Ms: medianOrNull(own.flatMap(({ p50Ms }) => p50Ms ?? [])),
      p99Ms: medianOrNull(own.flatMap(({ p99Ms }) => p99Ms ?? [])),
      ofStream: ratio(streamRates),
      ofDebezium: by === "millrace" ? ratio(peer) : null,
    };
    const ownGoals = by === "millrace" ? goals : {};
    return { case: own[0]?.case ?? "", by, figures, goals: ownGoals, missed: missedGoals(figures, ownGoals) };
  });
}

function medianOrNull(values: readonly number[]): number | null {
  return values.length === 0 ? null : median(values);
}

/** Of these more is better, of the others less. */
const atLeast: readonly (keyof KafkaGoals)[] = ["rate", "ofStream"];

function missedGoals(figures: KafkaFigures, goals: KafkaGoals): readonly (keyof KafkaGoals)[] {
  const names = Object.keys(goals) as (keyof KafkaGoals)[];
  return names.filter((name) => {
    const [figure, goal] = [figures[name], goals[name]];
    if (figure === null || goal === undefined) return false;
    return atLeast.includes(name) ? figure < goal : figure > goal;
  });
}

const units: Readonly<Record<keyof KafkaGoals, (value: number) => string>> = {
  rate: (value) => `${Math.round(value).toLocaleString("en-US")} messages/s`,
  ofStream: (value) => `${value.toFixed(2)} of a stream`,
  cpuSecondsPerMillion: (value) => `${value.toFixed(1)} CPU s a million`,
  p50Ms: (value) => `p50 ${value.toFixed(0)} ms`,
  p99Ms: (value) => `p99 ${value.toFixed(0)} ms`,
  peakBytes: (value) => `peak ${Math.round(value / 2 ** 20)} MB`,
};

/** Each figure with its goal in brackets. */
export function formatKafka({ case: name, by, figures, goals, missed }: KafkaSummary): string {
  const keys = Object.keys(units) as (keyof KafkaGoals)[];
  const texts = keys.flatMap((key) => {
    const [figure, goal] = [figures[key], goals[key]];
    if (figure === null) return [];
    const text = units[key](figure);
    return goal === undefined ? [text] : [`${text} (${goalText(key, goal)})`];
  });
  if (figures.ofDebezium !== null) texts.splice(1, 0, `${figures.ofDebezium.toFixed(2)} of Debezium Server`);
  return `${name.padEnd(30)} ${by.padEnd(9)} ${texts.join(", ")}${verdict(goals, missed)}`;
}

/** As a table in Markdown, as docs/benchmarks.md has it. */
export function formatKafkaTable(summaries: readonly KafkaSummary[]): string {
  const head = `| Case | By | Messages /s | Of a stream | CPU for a million | p50 | p99 | Peak |
|---|---|---:|---:|---:|---:|---:|---:|`;
  const rows = summaries.map(({ case: name, by, figures, goals }) => {
    const cell = (key: keyof KafkaGoals, format: (value: number) => string) => {
      const [figure, goal] = [figures[key], goals[key]];
      if (figure === null) return "";
      return goal === undefined ? format(figure) : `${format(figure)} (${goalText(key, goal)})`;
    };
    const cells = [
      ...[name.replace("kafka: ", ""), by === "debezium" ? "Debezium Server" : by],
      cell("rate", (value) => Math.round(value).toLocaleString("en-US")),
      cell("ofStream", (value) => value.toFixed(2)),
      cell("cpuSecondsPerMillion", (value) => `${value.toFixed(1)} s`),
      cell("p50Ms", (value) => `${value.toFixed(0)} ms`),
      cell("p99Ms", (value) => `${value.toFixed(0)} ms`),
      cell("peakBytes", (value) => `${Math.round(value / 2 ** 20)} MB`),
    ];
    return `| ${cells.join(" | ")} |`.replaceAll("  ", " ");
  });
  return [head, ...rows].join("\n");
}

function goalText(key: keyof KafkaGoals, goal: number): string {
  return key === "peakBytes" ? String(goal / 2 ** 20) : goal.toLocaleString("en-US");
}

function verdict(goals: KafkaGoals, missed: readonly (keyof KafkaGoals)[]): string {
  if (Object.keys(goals).length === 0) return "";
  const texts: Readonly<Record<keyof KafkaGoals, string>> = {
    rate: "messages/s",
    ofStream: "ratio to a stream",
    cpuSecondsPerMillion: "CPU",
    p50Ms: "p50",
    p99Ms: "p99",
    peakBytes: "peak",
  };
  return missed.length === 0 ? ": goals reached" : `: missed ${missed.map((key) => texts[key]).join(", ")}`;
}
