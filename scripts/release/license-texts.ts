// The licenses of all that is inside the program, as one text. Packages bring theirs. For the few that name a license and bring no text, it is
// the text that SPDX has for it.

import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import spdx from "spdx-license-list/full.js";
import { root } from "../compile.ts";
import type { Contents, InsidePackage } from "./contents.ts";

/** `LICENSE`, `COPYING`, `NOTICE`, and the notices of what is bundled into a file of the package. */
const isNotice = (file: string) =>
  /^(?:licen[cs]e|copying|notice)(?:\.(?:md|txt)|-[\w.-]+)?$/i.test(file) ||
  file === "swagger-ui-bundle.js.LICENSE.txt";

const rule = "=".repeat(78);

export async function formatLicenses({ packages, bunVersion, postgresVersion }: Contents): Promise<string> {
  const parts = [
    "The program holds the following software, under these licenses. Its own license is in the file LICENSE.\n",
    part(`bun ${bunVersion} (MIT)`, bunNotice()),
    part(`PostgreSQL ${postgresVersion}, inside PGlite (PostgreSQL)`, textOf("PostgreSQL")),
  ];
  for (const inside of packages) {
    const { name, version, license } = inside.manifest;
    parts.push(part(`${name} ${version} (${license})`, await packageNotice(inside)));
  }
  return parts.join("\n");
}

function part(title: string, text: string): string {
  return `${rule}\n${title}\n${rule}\n\n${text.replaceAll("\r\n", "\n").trim()}\n`;
}

async function packageNotice({ folder, manifest }: InsidePackage): Promise<string> {
  const files = (await readdir(join(root, folder))).filter(isNotice).sort();
  const texts = await Promise.all(files.map((file) => readFile(join(root, folder, file), "utf8")));
  if (files.some((file) => !/^notice/i.test(file))) return texts.join("\n\n");
  const author = typeof manifest.author === "string" ? manifest.author : manifest.author?.name;
  const holder = author ?? `the authors of ${manifest.name}`;
  const text = textOf(manifest.license)
    .replace(/<year>\s*/i, "")
    .replace(/<copyright holders>/i, holder);
  return [`Copyright (c) ${holder}`, text, ...texts].join("\n\n");
}

/** Throws for a license that is not in SPDX' list: somebody has to look at it. */
function textOf(license: string): string {
  const known = spdx[license]?.licenseText;
  if (known === undefined) throw new Error(`the text of the license ${license} is not known`);
  return known;
}

/** https://bun.com/docs/project/license */
function bunNotice(): string {
  const mit = textOf("MIT")
    .replace(/<year>\s*/i, "")
    .replace(/<copyright holders>/i, "Oven, and the authors of Bun");
  return `${mit}

Bun is linked with JavaScriptCore and parts of WebKit, which are under the GNU Library General Public License, version 2 (below). Their
sources, and how to link Bun anew with changed ones, are at https://github.com/oven-sh/WebKit and https://github.com/oven-sh/bun. The further
libraries that Bun is linked with, and their licenses, are listed at https://bun.com/docs/project/license.

${textOf("LGPL-2.0-only")}`;
}
