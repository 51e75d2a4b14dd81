// What axe-core finds on a page: WCAG 2.2 A and AA, and its best practices.

import axe from "axe-core";
import type { Page } from "puppeteer-core";

interface AxeWindow {
  axe: { run(options: object): Promise<{ violations: Violation[] }> };
}

interface Violation {
  readonly id: string;
  readonly help: string;
  readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[];
}

const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

/** Each violation in a line; none: []. */
export async function violationsOf(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  const found = await page.evaluate(async (wanted) => {
    const { violations } = await (globalThis as unknown as AxeWindow).axe.run({
      runOnly: { type: "tag", values: wanted },
    });
    return violations;
  }, tags);
  return found.flatMap(({ id, help, nodes }) =>
    nodes.map(({ html, failureSummary }) => `${id}: ${help}: ${html.slice(0, 300)}: ${failureSummary}`),
  );
}
