// Checks cron expressions of five fields. schedule.ts computes when one is due.

interface FieldRange {
  readonly minimum: number;
  readonly maximum: number;
  readonly names: readonly string[];
}

const months = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const weekdays = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const fieldRanges: readonly FieldRange[] = [
  { minimum: 0, maximum: 59, names: [] },
  { minimum: 0, maximum: 23, names: [] },
  { minimum: 1, maximum: 31, names: [] },
  { minimum: 1, maximum: 12, names: months },
  // 0 and 7 are both Sunday.
  { minimum: 0, maximum: 7, names: weekdays },
];

/**
 * Minute, hour, day of the month, month, day of the week. Each is a list of `*`, `n`, `n-m`, with an optional `/step`.
 */
export function isCronExpression(text: string): boolean {
  const fields = text.trim().split(/[ \t]+/);
  return (
    fields.length === fieldRanges.length &&
    fieldRanges.every((range, index) => fields[index]?.split(",").every((item) => isItem(item, range)))
  );
}

function isItem(item: string, range: FieldRange): boolean {
  const [span = "", step, ...tooMany] = item.split("/");
  if (tooMany.length > 0) return false;
  if (step !== undefined && !(/^\d{1,4}$/.test(step) && Number(step) > 0)) return false;
  if (span === "*") return true;
  const [first = "", last, ...more] = span.split("-");
  const from = readValue(first, range);
  if (more.length > 0 || from === null) return false;
  if (last === undefined) return true;
  const to = readValue(last, range);
  return to !== null && from <= to;
}

function readValue(text: string, range: FieldRange): number | null {
  const name = range.names.indexOf(text.toLowerCase());
  if (name >= 0) return name + range.minimum;
  if (!/^\d{1,2}$/.test(text)) return null;
  const value = Number(text);
  return value >= range.minimum && value <= range.maximum ? value : null;
}
