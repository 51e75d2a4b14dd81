// Watches a process' memory from outside, by Linux' /proc, or by `ps` where there is none: what it says of itself would leave out what its allocator,
// its WebAssembly and its threads hold.
// https://man7.org/linux/man-pages/man5/proc_pid_status.5.html

import { existsSync, readFileSync, writeFileSync } from "node:fs";

/** Bytes. */
export interface MemoryPeak {
  /** Largest resident set that the kernel has seen: nothing is missed between two looks. */
  readonly resident: number;
  /** Largest proportional set that was sampled: shared pages count by their share. */
  readonly proportional: number;
  /** Largest anonymous memory that was sampled: what the program's files on disk are not. */
  readonly anonymous: number;
}

const sampleEveryMs = 100;

const hasProc = existsSync("/proc/self/smaps_rollup");

export class MemoryWatch implements Disposable {
  #sampled = 0;
  #proportional = 0;
  #anonymous = 0;
  readonly #timer: Timer;

  constructor(private readonly pid: number) {
    // https://man7.org/linux/man-pages/man5/proc_pid_clear_refs.5.html: the peak begins anew.
    if (hasProc) writeFileSync(`/proc/${pid}/clear_refs`, "5");
    this.#sample();
    this.#timer = setInterval(() => this.#sample(), sampleEveryMs);
  }

  peak(): MemoryPeak {
    this.#sample();
    const resident = hasProc
      ? kilobytes(readFileSync(`/proc/${this.pid}/status`, "utf8"), "VmHWM")
      : this.#sampled;
    return { resident, proportional: this.#proportional, anonymous: this.#anonymous };
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  #sample(): void {
    if (!hasProc) {
      const { stdout } = Bun.spawnSync(["ps", "-o", "rss=", "-p", String(this.pid)]);
      this.#sampled = Math.max(this.#sampled, Number(stdout.toString()) * 1024);
      return;
    }
    try {
      const rollup = readFileSync(`/proc/${this.pid}/smaps_rollup`, "utf8");
      this.#proportional = Math.max(this.#proportional, kilobytes(rollup, "Pss"));
      this.#anonymous = Math.max(this.#anonymous, kilobytes(rollup, "Anonymous"));
    } catch {
      // The process has ended between two looks.
    }
  }
}

const megabyte = 1024 * 1024;

/** Does the work and tells the memory that the process took meanwhile, also to who reads the test's output. */
export async function memoryPeakWhile(
  pid: number,
  name: string,
  work: () => Promise<unknown>,
): Promise<MemoryPeak> {
  using watch = new MemoryWatch(pid);
  const startedMs = performance.now();
  await work();
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
  const peak = watch.peak();
  const [resident, proportional, anonymous] = [peak.resident, peak.proportional, peak.anonymous].map(
    (bytes) => Math.round(bytes / megabyte),
  );
  console.log(
    `${name}: ${resident} MB resident, ${proportional} proportional, ${anonymous} anonymous; ${seconds} s`,
  );
  return peak;
}

function kilobytes(text: string, field: string): number {
  const value = new RegExp(`^${field}:\\s+(\\d+) kB`, "m").exec(text)?.[1];
  if (value === undefined) throw new Error(`no ${field} among what the kernel tells of the process`);
  return Number(value) * 1024;
}
