// Reads Postgres' text of dates, times and intervals into whole numbers. Exact: numbers beyond 2^53 are
// bigints.
// https://www.postgresql.org/docs/current/datatype-datetime.html#DATATYPE-DATETIME-OUTPUT

const decoder = new TextDecoder();

export function textOf(source: Uint8Array, start: number, end: number): string {
  return decoder.decode(source.subarray(start, end));
}

/** Days from 1970-01-01 to a day of the proleptic Gregorian calendar. */
function daysFromCivil(year: number, month: number, day: number): number {
  // Years begin in March, so that the leap day is a year's last (H. Hinnant, "chrono-compatible low-level
  // date algorithms").
  const y = month <= 2 ? year - 1 : year;
  const era = Math.floor(y / 400);
  const yearOfEra = y - era * 400;
  const dayOfYear = Math.floor((153 * (month + (month > 2 ? -3 : 9)) + 2) / 5) + day - 1;
  const dayOfEra = yearOfEra * 365 + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100) + dayOfYear;
  return era * 146_097 + dayOfEra - 719_468;
}

/** Days since 1970-01-01 of `2024-01-02` or `0044-03-15 BC`; null for `infinity` and what is no date. */
export function parseDate(text: string): number | null {
  const match = /^(\d{4,})-(\d\d)-(\d\d)/.exec(text);
  if (!match) return null;
  const year = text.endsWith(" BC") ? 1 - Number(match[1]) : Number(match[1]);
  return daysFromCivil(year, Number(match[2]), Number(match[3]));
}

/** Microseconds since midnight of `03:04:05.678901`, wherever it stands in `text`; null without one. */
export function parseTime(text: string): number | null {
  const match = /(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?/.exec(text);
  if (!match) return null;
  const seconds = Number(match[1]) * 3600 + Number(match[2]) * 60 + Number(match[3]);
  return seconds * 1_000_000 + Number((match[4] ?? "").padEnd(6, "0"));
}

/** Seconds east of UTC of a zone `+02`, `-08:30` or `+05:53:28` at the end of `text`; 0 without one. */
export function parseZone(text: string): number {
  const match = /([+-])(\d\d)(?::(\d\d))?(?::(\d\d))?$/.exec(text);
  if (!match) return 0;
  const seconds = Number(match[2]) * 3600 + Number(match[3] ?? 0) * 60 + Number(match[4] ?? 0);
  return match[1] === "-" ? -seconds : seconds;
}

const digit = (source: Uint8Array, at: number): number => source[at]! - 48;
const two = (source: Uint8Array, at: number): number => digit(source, at) * 10 + digit(source, at + 1);

/** As `parseDate`, of a day of the years 0001 to 9999, `2024-01-02`: these are nearly all. Null for others. */
export function plainDays(source: Uint8Array, start: number, end: number): number | null {
  if (end - start !== 10 || source[start + 4] !== 45 || source[start + 7] !== 45) return null;
  const year = two(source, start) * 100 + two(source, start + 2);
  return daysFromCivil(year, two(source, start + 5), two(source, start + 8));
}

/** As `parseTime`, of a time that is all of the text, `03:04:05.678901`. */
export function plainTimeUs(source: Uint8Array, start: number, end: number): number {
  const seconds = two(source, start) * 3600 + two(source, start + 3) * 60 + two(source, start + 6);
  let us = 0;
  for (let i = start + 9; i < start + 15; i++) us = us * 10 + (i < end ? digit(source, i) : 0);
  return seconds * 1_000_000 + us;
}

/**
 * Microseconds since 1970-01-01 00:00:00 of a timestamp between the years 1700 and 2199, `2024-01-02 03:04:05.678901`, whose number is exact: these are nearly all.
 * Null for others.
 */
export function plainTimestampUs(source: Uint8Array, start: number, end: number): number | null {
  const length = end - start;
  // A year of four digits, and no "BC" behind.
  if (length < 19 || length > 26 || source[start + 4] !== 45 || source[end - 1] === 67) return null;
  const year = two(source, start) * 100 + two(source, start + 2);
  if (year < 1700 || year > 2199) return null;
  const days = daysFromCivil(year, two(source, start + 5), two(source, start + 8));
  const seconds = two(source, start + 11) * 3600 + two(source, start + 14) * 60 + two(source, start + 17);
  let us = 0;
  for (let i = start + 20; i < start + 26; i++) us = us * 10 + (i < end ? digit(source, i) : 0);
  return (days * 86_400 + seconds) * 1_000_000 + us;
}

/** Microseconds since 1970-01-01 00:00:00 of a timestamp without time zone; null for `infinity`. */
export function parseTimestampUs(text: string): bigint | null {
  const days = parseDate(text);
  const time = parseTime(text);
  return days === null || time === null ? null : BigInt(days) * 86_400_000_000n + BigInt(time);
}

/**
 * An interval in microseconds, a month being 365.25 / 12 days: as Debezium counts. Text as IntervalStyle
 * `postgres` prints it: `1 year 2 mons -3 days +04:05:06.7`. Null for `infinity`.
 */
export function parseIntervalUs(text: string): bigint | null {
  if (text.includes("infinity")) return null;
  let months = 0n;
  let days = 0n;
  for (const [, count, unit] of text.matchAll(/([+-]?\d+) (year|mon|day)s?/g)) {
    const value = BigInt(count!);
    if (unit === "year") months += value * 12n;
    else if (unit === "mon") months += value;
    else days += value;
  }
  const time = /([+-]?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?/.exec(text);
  let us = 0n;
  if (time) {
    const seconds = BigInt(time[2]!) * 3600n + BigInt(time[3]!) * 60n + BigInt(time[4]!);
    us = seconds * 1_000_000n + BigInt((time[5] ?? "").padEnd(6, "0"));
    if (time[1] === "-") us = -us;
  }
  // 30.4375 days are 2,629,800 seconds.
  return months * 2_629_800_000_000n + days * 86_400_000_000n + us;
}

/**
 * A date or timestamp with its year in ISO 8601: `-0043-03-15` for `0044-03-15 BC`, `+12024-05-06` for a year of more than four
 * digits.
 */
export function withIsoYear(text: string): string {
  const digits = /^\d+/.exec(text)?.[0] ?? "";
  const isBc = text.endsWith(" BC");
  if (digits.length <= 4 && !isBc) return text;
  const year = isBc ? 1 - Number(digits) : Number(digits);
  const sign = year < 0 ? "-" : year > 9999 ? "+" : "";
  const rest = text.slice(digits.length, isBc ? -3 : undefined);
  return `${sign}${String(Math.abs(year)).padStart(4, "0")}${rest}`;
}

/** `HH:MM:SS` and as many digits of the fraction as are needed, of microseconds since midnight. */
export function formatTime(us: number): string {
  const seconds = Math.floor(us / 1_000_000);
  const two = (value: number) => String(value).padStart(2, "0");
  const clock = `${two(Math.floor(seconds / 3600))}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
  const fraction = us % 1_000_000;
  return fraction === 0 ? clock : `${clock}.${String(fraction).padStart(6, "0").replace(/0+$/, "")}`;
}
