// A connector as the file that `millrace serve --config` reads. The API tells no secret, so the file names a variable of
// the environment for each. Pure.

import type { GivenConnector } from "../../../../src/connector/connector.ts";

type Config = GivenConnector["connector"];

export interface ConfigFile {
  readonly text: string;
  /** What has to be set in the service's environment. */
  readonly variables: readonly string[];
}

/** What stands for a secret in the API's answers. */
const redacted = "***";

export function configFile(connector: Config): ConfigFile {
  const variables: string[] = [];
  const secret = (keys: readonly string[]) => {
    const name = unused(variableName(connector.id, keys), variables);
    variables.push(name);
    return `\${${name}}`;
  };
  const body = rewritten(connector, [], secret);
  return { text: `${JSON.stringify({ connectors: [body] }, null, 2)}\n`, variables };
}

/** As the API shows it. */
export function connectorJson(connector: Config): string {
  return `${JSON.stringify(connector, null, 2)}\n`;
}

function rewritten(
  value: unknown,
  keys: readonly string[],
  secret: (keys: readonly string[]) => string,
): unknown {
  if (value === redacted) return secret(keys);
  if (typeof value === "string") return escaped(value);
  if (Array.isArray(value))
    return value.map((item, index) => rewritten(item, [...keys, nameOf(item, index)], secret));
  if (typeof value !== "object" || value === null) return value;
  const members = Object.entries(value)
    // It is null where nobody gave it.
    .filter(([, member]) => keys.length > 0 || member !== null)
    .map(([key, member]) => [key, rewritten(member, [...keys, key], secret)]);
  return Object.fromEntries(members);
}

/** What looks like a variable, and is none. */
function escaped(text: string): string {
  return text.replace(/\$\{[A-Za-z_][A-Za-z0-9_]*\}/g, (found) => `$${found}`);
}

/** Items of lists are known by a name or key of theirs: headers, properties. */
function nameOf(item: unknown, index: number): string {
  const { name, key } = (item ?? {}) as { name?: unknown; key?: unknown };
  const known = name ?? key;
  return typeof known === "string" && known !== "" ? known : String(index + 1);
}

/** ORDERS_SOURCE_PASSWORD: the connector, its side, and what it is. */
function variableName(id: string, keys: readonly string[]): string {
  const [side = "", ...path] = keys;
  const last = path.at(-1) === "value" ? path.slice(-2, -1) : path.slice(-1);
  const name = [id, side, ...last]
    .join("_")
    .toUpperCase()
    .replace(/[^A-Z0-9]+/g, "_");
  return /^[0-9]/.test(name) ? `_${name}` : name;
}

function unused(name: string, taken: readonly string[]): string {
  if (!taken.includes(name)) return name;
  for (let number = 2; ; number++) {
    if (!taken.includes(`${name}_${number}`)) return `${name}_${number}`;
  }
}
