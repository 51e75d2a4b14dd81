import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { exact } from "../text/times.ts";
import { tickTexts } from "./ticks.ts";

export interface Series {
  readonly label: string;
  readonly color: "--chart-1" | "--chart-2" | "--chart-3";
  readonly values: readonly (number | null)[];
  /** Filled down to zero: for what others are parts of. */
  readonly isArea?: boolean;
}

interface ChartProps {
  /** What it shows, for those who hear the page; a table or a figure says the same. */
  readonly label: string;
  /** Unix seconds. */
  readonly times: readonly number[];
  readonly series: readonly Series[];
  readonly format: (value: number) => string;
  /** For the ticks, where two of them may be too near each other for `format`. */
  readonly formatTick?: (value: number) => string;
  readonly height?: number;
}

/** Series over time. It follows its box's width and the theme's colours. */
export function Chart({ label, times, series, format, formatTick = format, height = 180 }: ChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const data: uPlot.AlignedData = [[...times], ...series.map(({ values }) => [...values])];
  const latest = useRef(data);
  latest.current = data;
  const shape = series.map(({ label: name, color }) => name + color).join();

  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const draw = () => {
      plot.current?.destroy();
      plot.current = new uPlot(
        options(element, series, { format, formatTick, height }),
        latest.current,
        element,
      );
    };
    draw();
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height }));
    resized.observe(element);
    const themed = new MutationObserver(draw);
    themed.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    return () => {
      resized.disconnect();
      themed.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape, height]);

  useEffect(() => plot.current?.setData(data), [times, series]);

  return <div class="chart" ref={box} role="img" aria-label={label} />;
}

/** So that a tick at the right end has room for its time. */
const halfOfTime = 20;

function options(
  element: HTMLElement,
  series: readonly Series[],
  { format, formatTick, height }: Required<Pick<ChartProps, "format" | "formatTick" | "height">>,
): uPlot.Options {
  const styles = getComputedStyle(document.documentElement);
  const color = (name: string) => styles.getPropertyValue(name).trim();
  const axis = {
    stroke: color("--ink-soft"),
    grid: { stroke: color("--line"), width: 1 },
    ticks: { show: false },
  };
  return {
    width: element.clientWidth,
    height,
    padding: [8, halfOfTime, 0, 0] as uPlot.Padding,
    legend: { live: true },
    cursor: { points: { size: 6 } },
    scales: { y: { range: (_plot, _least, most) => [0, Math.max(1, most * 1.1)] } },
    axes: [
      { ...axis, size: 28, values: (_plot, ticks) => ticks.map(timeOfDay) },
      { ...axis, size: 64, values: (_plot, ticks) => tickTexts(ticks, formatTick) },
    ],
    series: [
      { label: "At", value: (_plot: uPlot, time: number | null) => (time === null ? "–" : timeOfDay(time)) },
      ...series.map((one) => ({
        label: one.label,
        stroke: color(one.color),
        width: 2,
        spanGaps: false,
        points: { show: false },
        ...(one.isArea && { fill: `color-mix(in srgb, ${color(one.color)} 16%, transparent)` }),
        value: (_plot: uPlot, value: number | null) => (value === null ? "–" : format(value)),
      })),
    ],
  };
}

/** 13:05, or 13:05:30 between two minutes; in the reader's time zone. */
function timeOfDay(unixSeconds: number): string {
  const [hour = "", minute = "", second] = exact(unixSeconds * 1000)
    .slice(11)
    .split(":");
  return second === "00" ? `${hour}:${minute}` : `${hour}:${minute}:${second}`;
}
