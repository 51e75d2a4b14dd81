// Times for people. Pure: the clock comes in.

const thin = "\u202f";

/** "3 s", "4 min 10 s", "2 h 5 min", "3 d 4 h": two units at most. */
export function duration(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (seconds > 0 && seconds < 1) return `${Math.max(1, Math.round(seconds * 1000))}${thin}ms`;
  if (whole < 60) return `${whole}${thin}s`;
  if (whole < 3_600) return two(whole, 60, "min", 1, "s");
  if (whole < 86_400) return two(whole, 3_600, "h", 60, "min");
  return two(whole, 86_400, "d", 3_600, "h");
}

/** As `duration`, but for half seconds: "1.5 s". For an axis, whose ticks may be that near each other. */
export function tickDuration(seconds: number): string {
  const isBetween = seconds > 1 && seconds < 60 && !Number.isInteger(seconds);
  return isBetween ? `${Number(seconds.toFixed(2))}${thin}s` : duration(seconds);
}

/** "3 s ago", "in 5 min", "now" */
export function ago(at: number, now: number): string {
  const seconds = (now - at) / 1000;
  if (Math.abs(seconds) < 1) return "now";
  const text = oneUnit(Math.abs(seconds));
  return seconds > 0 ? `${text} ago` : `in ${text}`;
}

/** 2026-03-01 12:00:05, in the reader's time zone. */
export function exact(at: number): string {
  const date = new Date(at);
  const padded = (value: number) => String(value).padStart(2, "0");
  const day = `${date.getFullYear()}-${padded(date.getMonth() + 1)}-${padded(date.getDate())}`;
  return `${day} ${padded(date.getHours())}:${padded(date.getMinutes())}:${padded(date.getSeconds())}`;
}

function two(seconds: number, large: number, largeUnit: string, small: number, smallUnit: string): string {
  const rest = Math.floor((seconds % large) / small);
  const first = `${Math.floor(seconds / large)}${thin}${largeUnit}`;
  return rest === 0 ? first : `${first} ${rest}${thin}${smallUnit}`;
}

function oneUnit(seconds: number): string {
  if (seconds < 60) return `${Math.floor(seconds)}${thin}s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)}${thin}min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3_600)}${thin}h`;
  return `${Math.floor(seconds / 86_400)}${thin}d`;
}
