// Reads connectors from a file: one, or {"connectors": […]}. ${NAME} in a string stands for an environment variable.

import { createReadStream } from "node:fs";
import { scanJson } from "../api/guards/json-scan.ts";
import { slotName } from "../connector/connector-id.ts";
import { isJsonObject } from "../connector/request/merge-patch.ts";
import { readBounded } from "../memory/read-bounded.ts";
import { CommandFailure } from "./service-client.ts";
import { lineOfMistake } from "./text/json-line.ts";

export interface FileConnector {
  readonly id: string;
  readonly body: Readonly<Record<string, unknown>>;
}

/** A body may be nested 64 levels deep, and is two levels down in the file. */
const maxDepth = 66;

/** Thousands of connectors. */
const maxBytes = 16 * 2 ** 20;

type Environment = Readonly<Record<string, string | undefined>>;

/** `path`: `-` for standard input. Throws CommandFailure. */
export async function readConnectors(
  path: string,
  environment: Environment,
): Promise<readonly FileConnector[]> {
  const isInput = path === "-";
  const name = isInput ? "standard input" : path;
  const bytes = await readBounded(isInput ? process.stdin : createReadStream(path), maxBytes).catch(
    (error: unknown) => {
      throw new CommandFailure(`${name} cannot be read: ${error instanceof Error ? error.message : error}`);
    },
  );
  return parseConnectors(textOf(bytes, name), name, environment);
}

function textOf(bytes: Uint8Array, name: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new CommandFailure(`${name} is not UTF-8.`);
  }
}

/** Pure. `name`: the file's, for messages. Throws CommandFailure, without values of variables. */
export function parseConnectors(
  text: string,
  name: string,
  environment: Environment,
): readonly FileConnector[] {
  const { repeatedKeys, tooDeep } = scanJson(text, maxDepth);
  if (tooDeep) throw new CommandFailure(`${name} is nested too deep.`);
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (error) {
    throw new CommandFailure(`${name} is no JSON: ${withoutValues(error)}, in line ${lineOfMistake(text)}.`);
  }
  if (repeatedKeys.length > 0)
    throw new CommandFailure(`${name} has keys that are there twice: ${repeatedKeys.join(", ")}.`);
  const isList = isJsonObject(parsed) && Array.isArray(parsed.connectors);
  if (!isJsonObject(parsed) || ("connectors" in parsed && !isList)) {
    throw new CommandFailure(`${name} must be one connector, or {"connectors": [ … ]} with a list of them.`);
  }
  const listed = isList ? (parsed.connectors as readonly unknown[]) : [parsed];
  const unknownKeys = isList ? Object.keys(parsed).filter((key) => key !== "connectors") : [];
  if (unknownKeys.length > 0) {
    throw new CommandFailure(
      `${name} has keys beside "connectors" that nothing is known of: ${unknownKeys.join(", ")}.`,
    );
  }
  const missing = new Set<string>();
  const connectors = listed.map((each, i) => {
    const body = substitute(each, environment, missing);
    if (!isJsonObject(body) || typeof body.id !== "string" || body.id === "") {
      throw new CommandFailure(`${name}: connector ${i + 1} has no "id", by which it is known.`);
    }
    return { id: body.id, body };
  });
  const twice = connectors.find(({ id }, i) => connectors.findIndex((other) => other.id === id) < i);
  if (twice) throw new CommandFailure(`${name}: two connectors have the id "${twice.id}".`);
  const slots = connectors.map(({ id }) => slotName(id));
  const second = slots.findIndex((slot, i) => slots.indexOf(slot) < i);
  if (second >= 0) {
    const ids = [slots.indexOf(slots[second]!), second].map((i) => `"${connectors[i]!.id}"`);
    throw new CommandFailure(
      `${name}: the ids ${ids.join(" and ")} lead to the same slot name, ${slots[second]}. Choose another id for one.`,
    );
  }
  if (missing.size > 0) {
    throw new CommandFailure(`${name} names variables that are not set: ${[...missing].join(", ")}.`);
  }
  return connectors;
}

/** Replaces `${NAME}` in strings. `$${NAME}` stands for `${NAME}` itself. */
function substitute(value: unknown, environment: Environment, missing: Set<string>): unknown {
  if (typeof value === "string") {
    return value.replace(/(\$?)\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g, (found, doubled: string, name: string) => {
      if (doubled !== "") return found.slice(1);
      const known = environment[name];
      if (known === undefined) missing.add(name);
      return known ?? "";
    });
  }
  if (Array.isArray(value)) return value.map((each) => substitute(each, environment, missing));
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, each]) => [key, substitute(each, environment, missing)]),
  );
}

/** The parser's message quotes the text, which may contain a secret. */
function withoutValues(error: unknown): string {
  return String(error instanceof Error ? error.message : error).replaceAll(/["'`].*["'`]/gs, "…");
}
