import { useMemo, useState } from "preact/hooks";
import { Chart } from "../../../charts/chart.tsx";
import {
  isKnownSomewhere,
  perSecondOf,
  type SampleSeries,
  windowOf,
} from "../../../connector/sample-series.ts";
import { Choice } from "../../../parts/choice.tsx";
import { useNow } from "../../../parts/clock.ts";
import { bytes, perSecond } from "../../../text/numbers.ts";
import { duration, tickDuration } from "../../../text/times.ts";

const ranges = [
  ["600", "10 minutes"],
  ["3600", "1 hour"],
] as const;
const lagUnits = [
  ["lag_seconds", "Time"],
  ["lag_bytes", "Bytes"],
] as const;

const lagFormats = {
  lag_seconds: { format: duration, formatTick: tickDuration },
  lag_bytes: { format: bytes },
} as const;

/** Throughput and lag over time. */
export function Charts({ id, series }: { readonly id: string; readonly series: SampleSeries }) {
  const [range, setRange] = useState<"600" | "3600">("600");
  const [lagUnit, setLagUnit] = useState<"lag_seconds" | "lag_bytes">("lag_seconds");
  const { stepSeconds } = series;
  // A new picture for each step, not for each second.
  const step = Math.floor(useNow() / 1000 / stepSeconds);
  const shown = useMemo(() => windowOf(series, Number(range), step * stepSeconds), [series, range, step]);
  const throughput = useMemo(() => throughputOf(shown.values, stepSeconds), [shown]);
  const lag = useMemo(
    () => [{ label: "Lag", color: "--chart-2" as const, values: shown.values[lagUnit] }],
    [shown, lagUnit],
  );
  const words = ranges.find(([value]) => value === range)?.[1] ?? "";
  return (
    <section class="stack" aria-labelledby="charts-title">
      <div class="row apart">
        <h2 id="charts-title">Over time</h2>
        <Choice label="Time shown" choices={ranges} value={range} onValue={setRange} />
      </div>
      {isKnownSomewhere(shown.values.rows_in) ? (
        <div class="charts">
          <div class="card stack tight">
            <h3>Rows a second</h3>
            <Chart
              label={`Rows a second of ${id}, ${words}: from the source, and durable at the sink`}
              {...{ times: shown.times, series: throughput, format: perSecond }}
            />
          </div>
          <div class="card stack tight">
            <div class="row apart">
              <h3>Lag</h3>
              <Choice label="Lag as" choices={lagUnits} value={lagUnit} onValue={setLagUnit} />
            </div>
            <Chart
              key={lagUnit}
              label={`Lag of ${id}, ${words}`}
              {...{ times: shown.times, series: lag, ...lagFormats[lagUnit] }}
            />
          </div>
        </div>
      ) : (
        <p class="soft">Nothing was measured in this time: no run carried anything.</p>
      )}
    </section>
  );
}

function throughputOf(values: ReturnType<typeof windowOf>["values"], stepSeconds: number) {
  return [
    {
      label: "From the source",
      color: "--chart-3" as const,
      values: perSecondOf(values.rows_in, stepSeconds),
      isArea: true,
    },
    { label: "Durable", color: "--chart-1" as const, values: perSecondOf(values.rows_durable, stepSeconds) },
  ];
}
