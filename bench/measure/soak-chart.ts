// Draws memory and file descriptors over time as a self-contained SVG.

import type { ProcessResources } from "./process-usage.ts";

export interface Sample extends ProcessResources {
  readonly minute: number;
}

const width = 900;
const height = 380;
const margin = { left: 70, right: 70, top: 50, bottom: 50 };
const inner = { width: width - margin.left - margin.right, height: height - margin.top - margin.bottom };
const steps = 4;
const style = 'font-family="sans-serif" font-size="12" fill="#444"';

/** The smallest round number that is not below `value`. */
function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return ([1, 2, 4, 5, 8, 10].find((factor) => factor * power >= value) ?? 10) * power;
}

function line(points: readonly (readonly [number, number])[], color: string): string {
  const at = points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ");
  return `<polyline fill="none" stroke="${color}" stroke-width="1.5" points="${at}"/>`;
}

const label = (x: number, y: number, text: string, anchor = "middle") =>
  `<text x="${x}" y="${y}" text-anchor="${anchor}" ${style}>${text}</text>`;

/** `title` must be plain text without markup. */
export function drawChart(samples: readonly Sample[], title: string): string {
  const minutes = Math.max(...samples.map(({ minute }) => minute));
  const megabytes = roundUp(Math.max(...samples.map(({ residentBytes }) => residentBytes / 1e6)));
  const descriptors = roundUp(Math.max(...samples.map((sample) => sample.descriptors)));
  const x = (minute: number) => margin.left + (inner.width * minute) / minutes;
  const y = (share: number) => margin.top + inner.height * (1 - share);
  const bottom = margin.top + inner.height;
  const rules = Array.from({ length: steps + 1 }, (_, step) => {
    const share = step / steps;
    return [
      `<line x1="${margin.left}" x2="${width - margin.right}" y1="${y(share)}" y2="${y(share)}" stroke="#ddd"/>`,
      label(margin.left - 8, y(share) + 4, `${Math.round(megabytes * share)} MB`, "end"),
      label(width - margin.right + 8, y(share) + 4, String(Math.round(descriptors * share)), "start"),
      label(x(minutes * share), bottom + 20, `${Math.round(minutes * share)} min`),
    ].join("");
  });
  const memory = samples.map(
    ({ minute, residentBytes }) => [x(minute), y(residentBytes / 1e6 / megabytes)] as const,
  );
  const open = samples.map((sample) => [x(sample.minute), y(sample.descriptors / descriptors)] as const);
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}">
<rect width="${width}" height="${height}" fill="white"/>
${label(width / 2, 24, title)}
${rules.join("\n")}
${line(memory, "#1f6feb")}
${line(open, "#d29922")}
${label(margin.left, height - 8, "blue: resident memory; yellow: open descriptors (right)", "start")}
</svg>
`;
}
