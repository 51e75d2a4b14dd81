// Chances that a seed brings back, and faults that are chosen by them.

export type Random = () => number;

/** mulberry32: small, and the same everywhere. */
export function seeded(from: number): Random {
  let state = from >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let value = Math.imul(state ^ (state >>> 15), state | 1);
    value ^= value + Math.imul(value ^ (value >>> 7), value | 61);
    return ((value ^ (value >>> 14)) >>> 0) / 2 ** 32;
  };
}

export const between = (random: Random, from: number, to: number) => from + random() * (to - from);
export const sleepSome = (random: Random, fromMs: number, toMs: number) =>
  Bun.sleep(between(random, fromMs, toMs));
export const oneOf = <T>(random: Random, all: readonly T[]): T => all[Math.floor(random() * all.length)] as T;

/** What may go wrong: it begins, lasts, and is over when its promise resolves. */
export interface Fault<Stage> {
  readonly name: string;
  /** How often it is chosen beside the others, which have 1. */
  readonly weight?: number;
  readonly run: (stage: Stage, random: Random) => Promise<void>;
}

/** One, two or three of those whose name holds `word`, one after the other. */
export function chooseFaults<Stage>(
  faults: readonly Fault<Stage>[],
  word: string,
  random: Random,
): Fault<Stage>[] {
  const among = faults.filter(({ name }) => name.includes(word));
  if (among.length === 0) throw new Error(`no fault has ${word} in its name`);
  return Array.from({ length: 1 + Math.floor(random() * 3) }, () => chooseOne(among, random));
}

function chooseOne<Stage>(among: readonly Fault<Stage>[], random: Random): Fault<Stage> {
  const total = among.reduce((sum, { weight = 1 }) => sum + weight, 0);
  let at = random() * total;
  for (const fault of among) {
    at -= fault.weight ?? 1;
    if (at < 0) return fault;
  }
  return among.at(-1)!;
}

/** Of milliseconds: the value within which this share lies, in seconds. https://en.wikipedia.org/wiki/Percentile#The_nearest-rank_method */
export function secondsAt(share: number, ms: readonly number[]): string {
  const sorted = ms.toSorted((a, b) => a - b);
  return ((sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? 0) / 1000).toFixed(1);
}

/** How often each fault was played, by name. */
export function describeCounts(counts: ReadonlyMap<string, number>): string {
  return [...counts]
    .sort()
    .map(([name, count]) => `${String(count).padStart(5)}  ${name}`)
    .join("\n");
}

export function countOne(counts: Map<string, number>, name: string): void {
  counts.set(name, (counts.get(name) ?? 0) + 1);
}
