// What a reader with a mouse does to a form, and what it then holds.

import type { Page } from "puppeteer-core";

/** Presses it, wherever on the page it is. `at`: which of those that the selector finds. */
export async function press(page: Page, selector: string, at = 0): Promise<void> {
  await page.waitForSelector(selector);
  const element = (await page.$$(selector))[at];
  if (!element) throw new Error(`there are not so many of ${selector}`);
  await element.evaluate((found) => (found as unknown as { click(): void }).click());
}

export async function fieldValue(page: Page, name: string): Promise<string> {
  return page.$eval(`[name="${name}"]`, (field) => (field as unknown as { value: string }).value);
}

export async function fillField(page: Page, name: string, text: string): Promise<void> {
  const field = await page.waitForSelector(`[name="${name}"]`);
  await field?.click({ count: 3 });
  await field?.type(text);
}

/** At once, as by pasting. */
export async function replaceText(page: Page, name: string, text: string): Promise<void> {
  await page.$eval(
    `[name="${name}"]`,
    (field, value) => {
      (field as unknown as { value: string }).value = value;
      field.dispatchEvent(new Event("input", { bubbles: true }));
    },
    text,
  );
}

export async function pasteInto(page: Page, name: string, text: string): Promise<void> {
  await page.$eval(
    `[name="${name}"]`,
    (field, pasted) => {
      const event = new Event("paste", { bubbles: true, cancelable: true });
      field.dispatchEvent(Object.assign(event, { clipboardData: { getData: () => pasted } }));
    },
    text,
  );
}

export async function unfoldAll(page: Page): Promise<void> {
  await page.$$eval("details", (groups) => {
    for (const group of groups) (group as unknown as { open: boolean }).open = true;
  });
}

export async function textOf(page: Page, selector = "main"): Promise<string> {
  return page.$eval(selector, (element) => element.textContent ?? "");
}
