import { expect, test } from "bun:test";
import { summaryOf } from "../../../console/pages/edit/model/summary.ts";
import { targetUrl } from "../../../src/sink/webhook/target-url.ts";

const defaults = { sink: { webhook: { path_template: "webhooks/{schema}/{table}" } } };
const webhook = (sink: object) => ({
  source: { postgres: { connection: { host: "db1", database: "shop" } } },
  sink: { webhook: { url: "https://a.example", ...sink } },
});
const line = (wanted: string, ...of: Parameters<typeof summaryOf>) =>
  summaryOf(...of).find(({ label }) => label === wanted)?.value;

test("the review has the whole address of a webhook's requests, also with the template that is filled in", () => {
  const to = (sink: object) => line("To", webhook(sink), defaults, null);
  expect(to({})).toBe("Webhook: https://a.example/webhooks/{schema}/{table}");
  expect(to({ path_template: "" })).toBe("Webhook: https://a.example");
  expect(to({ url: "" })).toBe("Webhook: ");
  expect(line("To", { sink: { postgres: {} } }, defaults, null)).not.toContain("http");
  expect(summaryOf(webhook({}), defaults, null).map(({ label }) => label)).not.toContain(
    "Path of its requests",
  );
});

test("the address is the one that the sink joins", () => {
  const bases = ["https://a.example/in", "https://a.example/in/?k=1", "https://a.example:8443/x//"];
  const templates = ["hook", "/hook?b=2", "?b=2", "", "v1/{table}"];
  for (const url of bases)
    for (const template of templates) {
      const shown = line("To", webhook({ url, path_template: template }), defaults, null);
      expect(shown?.replace("{table}", "t")).toBe(`Webhook: ${targetUrl(url, template, "s", "t")}`);
    }
});

test("what happens to later tables is in the review", () => {
  const later = "Tables that are created later";
  const { source, sink } = webhook({});
  const chosen = (catalog: object) => ({ source: { postgres: { ...source.postgres, catalog } }, sink });
  expect(line(later, { source, sink }, defaults, null)).toBe("Carried, too");
  expect(line(later, chosen({ default_action: "Exclude" }) as never, defaults, null)).toBe("Left out");
});
