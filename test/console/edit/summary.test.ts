import { expect, test } from "bun:test";
import { summaryOf } from "../../../console/pages/edit/model/summary.ts";

const defaults = { sink: { webhook: { path_template: "webhooks/{schema}/{table}" } } };
const webhook = (sink: object) => ({
  source: { postgres: { connection: { host: "db1", database: "shop" } } },
  sink: { webhook: { url: "https://a.example", ...sink } },
});
const line = (wanted: string, ...of: Parameters<typeof summaryOf>) =>
  summaryOf(...of).find(({ label }) => label === wanted)?.value;

test("a webhook's path is in the review, also the one that is filled in", () => {
  const path = "Path of its requests";
  expect(line(path, webhook({}), defaults, null)).toBe("/webhooks/{schema}/{table}");
  expect(line(path, webhook({ path_template: "in" }), defaults, null)).toBe("/in");
  expect(line(path, { sink: { postgres: {} } }, defaults, null)).toBeUndefined();
});

test("what happens to later tables is in the review", () => {
  const later = "Tables that are created later";
  const { source, sink } = webhook({});
  const chosen = (catalog: object) => ({ source: { postgres: { ...source.postgres, catalog } }, sink });
  expect(line(later, { source, sink }, defaults, null)).toBe("Carried, too");
  expect(line(later, chosen({ default_action: "Exclude" }) as never, defaults, null)).toBe("Left out");
});
