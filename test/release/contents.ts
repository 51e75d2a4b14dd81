// What a release says of its contents: a bill of materials that is valid CycloneDX, and the licenses.

import { beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Spec, Validation } from "@cyclonedx/cyclonedx-library";
import manifest from "../../package.json" with { type: "json" };
import { compile, prepare, root } from "../../scripts/compile.ts";
import { type Contents, readContents } from "../../scripts/release/contents.ts";
import { formatLicenses } from "../../scripts/release/license-texts.ts";
import { formatSbom } from "../../scripts/release/sbom.ts";

setDefaultTimeout(120_000);

interface Component {
  readonly "bom-ref": string;
  readonly name: string;
  readonly group?: string;
  readonly version: string;
  readonly purl: string;
  readonly licenses: readonly unknown[];
}

let contents: Contents;
let sbom: string;
let components: readonly Component[];
let dependencies: readonly { readonly ref: string; readonly dependsOn?: readonly string[] }[];

beforeAll(async () => {
  const directory = await mkdtemp(join(tmpdir(), "millrace-contents-"));
  const metafile = join(directory, "metafile.json");
  await prepare();
  await compile(join(directory, "millrace"), null, metafile);
  contents = await readContents(metafile);
  await rm(directory, { recursive: true, force: true });
  sbom = formatSbom(contents);
  ({ components, dependencies } = JSON.parse(sbom));
}, 120_000);

const purlOf = (name: string, version: string) => `pkg:npm/${name.replace("@", "%40")}@${version}`;

test("the bill of materials is valid by the published schema", async () => {
  const validator = new Validation.JsonStrictValidator(Spec.Version.v1dot6);
  expect(await validator.validate(sbom)).toBeNull();
  expect(await validator.validate(sbom.replace('"purl"', '"pearl"'))).not.toBeNull();
});

test("it has each dependency that the program is made of, with version, license and purl, and no tool of development", () => {
  const purls = components.map(({ purl }) => purl);
  expect(new Set(purls).size).toBe(purls.length);
  for (const [name, version] of Object.entries(manifest.dependencies))
    expect(purls).toContain(purlOf(name, version));
  // The Kafka client brings these; the tests use them too.
  const inBoth = ["ajv", "avsc"];
  for (const [name, version] of Object.entries(manifest.devDependencies))
    if (!inBoth.includes(name)) expect(purls).not.toContain(purlOf(name, version));
  for (const component of components) {
    expect(component.version).toMatch(/^\d+\.\d+/);
    expect(component.licenses).not.toEqual([]);
    const name = component.group ? `${component.group}/${component.name}` : component.name;
    const isInstalled = existsSync(join(root, "node_modules", name));
    expect(isInstalled || ["bun", "postgresql"].includes(name)).toBe(true);
  }
  expect(purls).toContain(`pkg:github/oven-sh/bun@bun-v${manifest.packageManager.slice(4)}`);
  expect(purls.some((purl) => /^pkg:generic\/postgresql@\d+\.\d+$/.test(purl))).toBe(true);
});

test("everything in it is there because something needs it", () => {
  const needs = new Map(dependencies.map(({ ref, dependsOn = [] }) => [ref, dependsOn]));
  const reached = new Set<string>();
  const visit = (ref: string) => {
    if (reached.has(ref)) return;
    reached.add(ref);
    for (const next of needs.get(ref) ?? []) visit(next);
  };
  visit(`pkg:generic/millrace@${manifest.version}`);
  expect(components.map((each) => each["bom-ref"]).filter((ref) => !reached.has(ref))).toEqual([]);
});

test("the same contents give the same text", () => {
  expect(formatSbom(contents)).toBe(sbom);
});

test("the licenses are those of all components, each with its text", async () => {
  const text = await formatLicenses(contents);
  const parts = text.split(/^={78}\n(.*)\n={78}\n/m).slice(1);
  const titled = parts.flatMap((title, i) => (i % 2 === 0 ? [{ title, text: parts[i + 1] ?? "" }] : []));
  expect(titled).toHaveLength(components.length);
  for (const { title, text: own } of titled) expect([title, own.trim().length > 400]).toEqual([title, true]);
  const of = (name: string) => titled.find(({ title }) => title.startsWith(`${name} `))?.text ?? "";
  expect(of("bun")).toContain("LIBRARY GENERAL PUBLIC LICENSE");
  expect(of("PostgreSQL")).toContain("Regents of the University of California");
  expect(of("@electric-sql/pglite")).toContain("Apache License");
  expect(of("swagger-ui-dist")).toContain("SmartBear");
  expect(of("swagger-ui-dist")).toContain("@license");
  expect(text).not.toMatch(/<year>|<copyright holders>/i);
});
