// What the API shows of the settings: each one, where it comes from, and never a secret.

import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { readSettings } from "../src/config.ts";
import { settingTable } from "../src/setting-table.ts";
import { reportSettings } from "../src/settings-report.ts";

const planted = "planted-s3cret";
const variables = settingTable.flatMap(({ settings }) => settings.map(({ variable }) => variable));

const shown = (environment: Record<string, string>, name: string) =>
  reportSettings({}, environment).find((setting) => setting.name === name);

test("every variable that the settings are read from is in the table, and none twice", () => {
  const sources = ["config.ts", "alerts/alert-settings.ts", "runtime/metrics/otlp-settings.ts"];
  const read = sources.flatMap((path) => {
    const text = readFileSync(join(import.meta.dir, "..", "src", path), "utf8");
    return [...text.matchAll(/variable\("([A-Z_]+)"\)/g)].map(([, name = ""]) => name);
  });
  expect(read.length).toBeGreaterThan(20);
  expect(read.filter((name) => !variables.includes(name))).toEqual([]);
  expect(new Set(variables).size).toBe(variables.length);
});

test("a flag wins over the environment, and the environment over the default", () => {
  const { report } = readSettings(
    { port: "0", host: " " },
    { MILLRACE_PORT: "1", MILLRACE_HOST: "localhost" },
  );
  const of = (name: string) => report.find((setting) => setting.name === name);
  expect(of("MILLRACE_PORT")).toEqual({ name: "MILLRACE_PORT", value: "0", source: "Flag", secret: false });
  expect(of("MILLRACE_HOST")).toMatchObject({ value: "localhost", source: "Environment" });
  expect(of("MILLRACE_DATA_DIR")).toMatchObject({ value: "./data", source: "Default" });
  expect(of("DATABASE_URL")).toMatchObject({ value: null, source: "Default" });
  expect(of("MILLRACE_API_TOKEN")).toMatchObject({ value: null, source: "Default", secret: true });
});

test("no secret is shown", () => {
  const secrets = settingTable.flatMap(({ settings }) => settings.filter((setting) => setting.shown));
  const environment = Object.fromEntries(secrets.map(({ variable }) => [variable, planted]));
  expect(secrets.length).toBeGreaterThan(8);
  const report = reportSettings({}, environment);
  expect(JSON.stringify(report)).not.toContain(planted);
  for (const { variable } of secrets)
    expect(report.find(({ name }) => name === variable)).toMatchObject({
      value: "***",
      source: "Environment",
    });
  for (const setting of secrets)
    expect(setting.variable).toMatch(/PASSWORD|TOKEN|KEY|SECRET|URL|ENDPOINT|HEADERS/);
  const likely = variables.filter((name) => /PASSWORD|TOKEN|KEY|SECRET|URL|HEADERS/.test(name));
  expect(likely.filter((name) => !secrets.some(({ variable }) => variable === name))).toEqual([]);
});

test.each([
  [
    `postgres://ada:${planted}@db:5432/state?sslmode=require`,
    "postgres://ada:***@db:5432/state?sslmode=require",
  ],
  [`postgres://db/state?user=ada&password=${planted}`, "postgres://db/state?user=***&password=***"],
  ["postgres://ada@db/state", "postgres://ada@db/state"],
  [`postgres://ada:1/${planted}@db/state`, "***"],
  [`postgres://ada:1?${planted}@db/state`, "***"],
  [`postgres://ada:1#${planted}@db/state`, "***"],
  [`postgres://ada:${planted}@db/state#${planted}`, "postgres://ada:***@db/state"],
])("of the address %s what is no credential", (address, expected) => {
  expect(shown({ DATABASE_URL: address }, "DATABASE_URL")?.value).toBe(expected);
});

test("of a collector's address too", () => {
  const name = "OTEL_EXPORTER_OTLP_ENDPOINT";
  const address = `https://collector:4318/v1?token=${planted}`;
  expect(shown({ [name]: address }, name)).toEqual({
    name,
    value: "https://collector:4318/v1?token=***",
    source: "Environment",
    secret: false,
  });
});
