// Numbers for people: grouped by thin spaces, with units. Pure.

const thin = "\u202f";

/** 1 234 567 */
export function grouped(value: number): string {
  const [whole = "", fraction] = String(Math.abs(value)).split(".");
  if (!/^\d+$/.test(whole)) return String(value);
  const digits = whole.replace(/\B(?=(\d{3})+$)/g, thin);
  return (value < 0 ? "−" : "") + digits + (fraction === undefined ? "" : `.${fraction}`);
}

const steps = ["", "k", "M", "G", "T"] as const;

/** 950, 12.3 k, 4.56 M */
export function shortCount(value: number): string {
  return scaled(value, 1_000, steps, "");
}

/** 950 B, 12.3 kB */
export function bytes(value: number): string {
  return scaled(value, 1_000, steps, "B");
}

/** 12.3 k/s */
export function perSecond(value: number): string {
  return `${shortCount(value < 10 ? Math.round(value * 10) / 10 : Math.round(value))}/s`;
}

/** 12 %, and never 100 % before all is done. */
export function percent(done: number, all: number): string {
  if (all <= 0) return `0${thin}%`;
  const share = (done / all) * 100;
  return `${done >= all ? 100 : Math.min(99, Math.floor(share))}${thin}%`;
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${grouped(count)}${thin}${count === 1 ? one : many}`;
}

function scaled(value: number, base: number, prefixes: readonly string[], unit: string): string {
  const number = Math.abs(value);
  // Three digits are shown: 999 999 is 1.00 M, not 1000 k.
  const step = prefixes.findIndex(
    (_, index) => index === prefixes.length - 1 || rounded(number / base ** index) < base,
  );
  const shown = number / base ** step;
  const suffix = `${prefixes[step]}${unit}`;
  return (
    (value < 0 ? "−" : "") +
    (step === 0 ? String(number) : shown.toFixed(fractionDigits(shown))) +
    (suffix && thin + suffix)
  );
}

function fractionDigits(value: number): number {
  return value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
}

function rounded(value: number): number {
  return Number(value.toFixed(fractionDigits(value)));
}
