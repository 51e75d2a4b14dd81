// How people see the page: light and dark, on a phone, and twice as large. One rig holds every page to the same in all of them.

import { expect } from "bun:test";
import type { Page } from "puppeteer-core";
import { violationsOf } from "./accessibility.ts";
import type { OpenedPage } from "./chromium.ts";
import { mediaFeatures, type PageOptions, viewport } from "./look.ts";

export const looks: readonly PageOptions[] = [
  { theme: "light" },
  { theme: "dark" },
  { theme: "light", width: 320, height: 640 },
  { theme: "dark", width: 320, height: 640 },
  { theme: "dark", width: 1280, zoom: 2 },
];

/**
 * Opens a page and brings it into a state once, then looks at it in every way: it breaks no rule of access, is no wider than the
 * window, and the browser complains of nothing that is not `expected`.
 */
export async function holdsInEveryLook(
  open: (look: PageOptions) => Promise<OpenedPage>,
  prepare: (page: Page) => Promise<unknown>,
  expected: (complaint: string) => boolean = () => false,
): Promise<void> {
  await using opened = await open(looks[0] ?? {});
  const { page } = opened;
  await prepare(page);
  for (const look of looks) {
    await page.emulateMediaFeatures(mediaFeatures(look));
    await page.setViewport(viewport(look));
    await page.evaluate(drawn);
    const where = JSON.stringify(look);
    expect({ where, violations: await violationsOf(page) }).toEqual({ where, violations: [] });
    const tooWide = await page.$eval("html", (html) => html.scrollWidth - html.clientWidth);
    expect({ where, tooWide }).toEqual({ where, tooWide: 0 });
  }
  expect(opened.complaints.filter((complaint) => !expected(complaint))).toEqual([]);
}

/** The page has its new colours once it was drawn with them, and nothing moves any more. */
const drawn = `
  new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))
    .then(() => Promise.allSettled(document.getAnimations().map(({ finished }) => finished)))
    .then(() => undefined)`;
