// The bill of materials of the program, in CycloneDX's JSON form. The same contents give the same text.
// https://cyclonedx.org/docs/1.6/json/

import { Contrib, Enums, Models, Serialize, Spec } from "@cyclonedx/cyclonedx-library";
import { PackageURL } from "packageurl-js";
import parseExpression from "spdx-expression-parse";
import manifest from "../../package.json" with { type: "json" };
import type { Contents, InsidePackage } from "./contents.ts";

const { Component, Bom, LicenseRepository } = Models;
const licenses = new Contrib.License.Factories.LicenseFactory(parseExpression);

export function formatSbom({ packages, bunVersion, postgresVersion }: Contents): string {
  const program = component(Enums.ComponentType.Application, manifest, purl("generic", manifest));
  const bun = component(
    Enums.ComponentType.Application,
    { name: "bun", version: bunVersion, license: "MIT", description: "The runtime, with JavaScriptCore." },
    new PackageURL("github", "oven-sh", "bun", `bun-v${bunVersion}`, null, null).toString(),
  );
  const postgres = component(
    Enums.ComponentType.Application,
    { name: "postgresql", version: postgresVersion, license: "PostgreSQL", description: "Inside PGlite." },
    purl("generic", { name: "postgresql", version: postgresVersion }),
  );
  const known = packages.map((inside) => ({ ...inside, component: packageComponent(inside) }));
  const byFolder = new Map(known.map((each) => [each.folder, each]));
  for (const each of known) {
    for (const name of dependencyNames(each)) {
      const found = resolve(each.folder, name, byFolder);
      if (found) each.component.dependencies.add(found.component.bomRef);
    }
    if (each.manifest.name === "@electric-sql/pglite") each.component.dependencies.add(postgres.bomRef);
  }
  program.dependencies.add(bun.bomRef);
  for (const name of Object.keys(manifest.dependencies)) {
    const found = byFolder.get(`node_modules/${name}`);
    if (found) program.dependencies.add(found.component.bomRef);
  }
  const bom = new Bom({ metadata: new Models.Metadata({ component: program }) });
  for (const each of [bun, postgres, ...known.map((one) => one.component)]) bom.components.add(each);
  const form = new Serialize.JSON.Normalize.Factory(Spec.Spec1dot6);
  return `${new Serialize.JsonSerializer(form).serialize(bom, { sortLists: true, space: 2 })}\n`;
}

interface Described {
  readonly name: string;
  readonly version: string;
  readonly license: string;
  readonly description?: string;
}

function packageComponent({ manifest: described }: InsidePackage): Models.Component {
  const [scope, name] = described.name.startsWith("@") ? described.name.split("/") : [null, described.name];
  const url = new PackageURL("npm", scope, name!, described.version, null, null).toString();
  const made = component(Enums.ComponentType.Library, { ...described, name: name! }, url);
  if (scope) made.group = scope;
  return made;
}

function component(type: Enums.ComponentType, described: Described, url: string): Models.Component {
  const { name, version, license, description } = described;
  return new Component(type, name, {
    version,
    purl: url,
    bomRef: url,
    licenses: new LicenseRepository([licenses.makeFromString(license)]),
    ...(description === undefined ? {} : { description }),
  });
}

function purl(type: string, { name, version }: Pick<Described, "name" | "version">): string {
  return new PackageURL(type, null, name, version, null, null).toString();
}

function dependencyNames({ manifest: described }: InsidePackage): readonly string[] {
  const { dependencies, optionalDependencies, peerDependencies } = described;
  return Object.keys({ ...dependencies, ...optionalDependencies, ...peerDependencies }).sort();
}

/** As Node.js looks for a package: in the folder's own node_modules, then further up. */
function resolve<T>(folder: string, name: string, byFolder: ReadonlyMap<string, T>): T | null {
  for (let at = folder; ; ) {
    const found = byFolder.get(`${at === "" ? "" : `${at}/`}node_modules/${name}`);
    if (found) return found;
    if (at === "") return null;
    const up = at.lastIndexOf("/node_modules/");
    at = up < 0 ? "" : at.slice(0, up);
  }
}
