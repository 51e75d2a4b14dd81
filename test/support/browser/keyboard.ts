// A reader who has no mouse.

import type { KeyInput, Page } from "puppeteer-core";

/** Presses Tab until the field of that name, or the button or link of that text, has the focus. */
export async function tabTo(page: Page, wanted: string): Promise<void> {
  const passed: string[] = [];
  for (let count = 0; count < 80; count++) {
    await page.keyboard.press("Tab");
    const { name, text } = await focusedElement(page);
    if (name === wanted || (text === wanted && text !== "")) return;
    passed.push(name || text.slice(0, 30));
  }
  throw new Error(`Tab does not lead to ${wanted}, but to ${passed.join(", ")}`);
}

export async function typeInto(page: Page, field: string, text: string): Promise<void> {
  await tabTo(page, field);
  await page.keyboard.type(text);
}

export async function pressAt(page: Page, wanted: string, key: KeyInput = "Enter"): Promise<void> {
  await tabTo(page, wanted);
  await page.keyboard.press(key);
}

/** What has the focus: its name, or its text. */
export async function focused(page: Page): Promise<string> {
  const { name, text } = await focusedElement(page);
  return name || text;
}

async function focusedElement(page: Page): Promise<{ readonly name: string; readonly text: string }> {
  const element = await page.$(":focus");
  const found = await element?.evaluate((focus) => ({
    name: focus.getAttribute("name") ?? "",
    text: focus.textContent?.trim() ?? "",
  }));
  return found ?? { name: "", text: "" };
}
