// Collects the garbage of what passes through a thread: of a stream, or of calls one after the other. By itself the collector lets as
// much of it pile up as the heap holds, or 30 MB in a small heap, before it looks at it. In a small heap all is collected each time. In a
// large one that takes long: there, what is young is collected between.

import { edenGC, heapSize } from "bun:jsc";

export interface Collector {
  /** What was made since it ran last. */
  young(): void;
  all(): void;
  heapBytes(): number;
  /** What the process has of the machine's memory. */
  residentBytes(): number;
}

export const ownCollector: Collector = {
  young: () => void edenGC(),
  all: () => Bun.gc(true),
  heapBytes: heapSize,
  residentBytes: () => process.memoryUsage.rss(),
};

const allEveryBytes = 6 * 1024 * 1024;
/** Of the heap that is left: in a large one all is collected again after so much, and what is young between. */
const shareOfHeap = 0.5;
const youngEveryBytes = 3 * 1024 * 1024;
/** For deliveries: collections take a tenth of their CPU and save 20 MB, which matters only where the embedded state is in the same process. */
export const smallProcessBytes = 160 * 1024 * 1024;

/** A thread's garbage is collected as a whole, so that streams of a thread may share one. */
export class StreamGarbage {
  #bytes = 0;
  #youngBytes = 0;
  #allEveryBytes = allEveryBytes;

  constructor(
    /** While the process has at most so much, nothing is collected. */
    private readonly leftAloneBytes = 0,
    private readonly collector: Collector = ownCollector,
  ) {}

  /** Nothing refers any more to about so much of what the stream has brought, or what was made of it. */
  released(bytes: number): void {
    this.#bytes += bytes;
    this.#youngBytes += bytes;
    if (this.#bytes >= this.#allEveryBytes) this.#collectAll();
    else if (this.#isHeapLarge && this.#youngBytes >= youngEveryBytes) this.#collectYoung();
  }

  get #isLeftAlone(): boolean {
    return this.collector.residentBytes() <= this.leftAloneBytes;
  }

  get #isHeapLarge(): boolean {
    return this.#allEveryBytes > allEveryBytes;
  }

  #collectYoung(): void {
    this.#youngBytes = 0;
    if (this.#isLeftAlone) return;
    this.collector.young();
  }

  #collectAll(): void {
    this.#bytes = 0;
    this.#youngBytes = 0;
    if (this.#isLeftAlone) return;
    this.collector.all();
    this.#allEveryBytes = Math.max(allEveryBytes, this.collector.heapBytes() * shareOfHeap);
  }
}
