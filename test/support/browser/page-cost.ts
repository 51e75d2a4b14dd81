// What a page costs the browser: memory, nodes, listeners, and time in which it answers nobody.

import type { CDPSession, Page } from "puppeteer-core";

export interface Memory {
  readonly heapBytes: number;
  readonly nodes: number;
  readonly listeners: number;
}

export class PageCost {
  private constructor(
    private readonly page: Page,
    private readonly session: CDPSession,
  ) {}

  static async of(page: Page): Promise<PageCost> {
    const session = await page.createCDPSession();
    await session.send("Performance.enable");
    await session.send("HeapProfiler.enable");
    return new PageCost(page, session);
  }

  /** What is left after the garbage is collected. */
  async memory(): Promise<Memory> {
    await this.session.send("HeapProfiler.collectGarbage");
    const { metrics } = await this.session.send("Performance.getMetrics");
    const metric = (wanted: string) => metrics.find(({ name }) => name === wanted)?.value ?? Number.NaN;
    return {
      heapBytes: metric("JSHeapUsedSize"),
      nodes: metric("Nodes"),
      listeners: metric("JSEventListeners"),
    };
  }

  /** From here on. */
  async watchLongTasks(): Promise<void> {
    await this.page.evaluate(watch);
  }

  /** Milliseconds of each task that took more than 50. */
  longTasks(): Promise<number[]> {
    return this.page.evaluate(() => (globalThis as unknown as { longTasks: number[] }).longTasks);
  }
}

const watch = `
  globalThis.longTasks = [];
  new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) globalThis.longTasks.push(duration);
  }).observe({ type: "longtask" })`;
