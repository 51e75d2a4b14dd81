// Waits for what a page still loads.

import type { Page } from "puppeteer-core";
import { waitFor } from "../wait-for.ts";

const stillMs = 150;

/**
 * Until nothing on the page has said for 150 ms that it loads. The network tells less: a stream of events is never idle, and the
 * browser may not tell of the end of one whose page was left.
 */
export async function loaded(page: Page): Promise<void> {
  await page.waitForSelector("main :is(h1, h2)");
  let since = performance.now();
  await waitFor("the page to have loaded", async () => {
    const text = await page.$eval("main", (main) => main.textContent ?? "");
    if (text.includes("Loading…")) since = performance.now();
    return performance.now() - since >= stillMs;
  });
}
