// The secret fields of a connector: redacts them in responses, fills them in requests, and finds missing ones. The
// state store encrypts them.

import type { Violation } from "../errors/millrace-error.ts";
import { privateKeyProblem } from "./config/private-key.ts";
import { looksLikeCredential } from "./config/webhook-headers.ts";
import type { ConnectorConfig, ConnectorRequest } from "./connector.ts";
import { copyJson, isJsonObject, type JsonObject, type JsonValue } from "./request/merge-patch.ts";

/** Stands for a secret in responses. Sent back, it means the stored secret. */
export const redacted = "***";

interface SecretField {
  /** Keys from the connector down. `[]` stands for each item of an array; items are matched by their `name`. */
  readonly keys: readonly string[];
  readonly required: boolean;
  /** Whether responses hide it, where that depends on the object that has it; absent: always. */
  readonly isHidden?: (holder: JsonObject) => boolean;
}

const field = (path: string, required: boolean): SecretField => ({ keys: path.split("."), required });

/** A static header may be anything, so its value is kept as a secret; most are none, and clients compare them. */
const staticHeaderValue: SecretField = {
  ...field("sink.webhook.headers.static_.[].value", true),
  isHidden: ({ name, value }) => looksLikeCredential(String(name), String(value)),
};

const connectionSecrets = (connection: string): SecretField[] => [
  field(`${connection}.password`, true),
  field(`${connection}.ssl_cert`, false),
  field(`${connection}.ssl_key`, false),
  field(`${connection}.ssl_root_cert`, false),
  field(`${connection}.tunnel.ssh.auth.generated_key.private_key`, true),
  field(`${connection}.tunnel.ssh.auth.bring_your_own_key.private_key`, true),
];

const secretFields: readonly SecretField[] = [
  ...connectionSecrets("source.postgres.connection"),
  field("source.postgres.catalog.column_hashing.salt", true),
  ...connectionSecrets("sink.postgres.connection"),
  field("sink.webhook.auth.bearer.token", true),
  field("sink.webhook.auth.basic.password", true),
  field("sink.webhook.auth.header.value", true),
  staticHeaderValue,
  field("sink.webhook.signing.secret", true),
];

/** A copy with every secret replaced by `"***"`, the only form that leaves the service. */
export function redactConnector<T extends ConnectorConfig | ConnectorRequest>(connector: T): T {
  const copy = copyJson(connector);
  forEachSecret(copy as unknown as JsonObject, undefined, ({ holder, key, isHidden }) => {
    if (typeof holder[key] === "string" && isHidden(holder)) holder[key] = redacted;
  });
  return copy;
}

/**
 * Which secrets are filled where they are left out: all, those that a connector cannot do without, or those in lists
 * alone, which a merge patch replaces as a whole.
 */
export type FillMissing = "all" | "required" | "in lists";

/**
 * A copy of `request` with secrets from `stored`: those that are `"***"`, and those that are left out, as `fillMissing`
 * says. A secret that `stored` lacks is left out. An explicit `null` stays.
 *
 * @param request a connector, or a part of one under the same keys: `{source}`, `{sink}`
 */
export function fillSecrets<T extends object>(
  request: T,
  stored: ConnectorConfig | ConnectorRequest | null,
  fillMissing: FillMissing,
): T {
  const copy = copyJson(request);
  const from = stored === null ? undefined : (stored as unknown as JsonObject);
  forEachSecret(copy as unknown as JsonObject, from, ({ holder, storedHolder, key, required, isInList }) => {
    const value = holder[key];
    const isFilled = fillMissing === "all" || isInList || (fillMissing === "required" && required);
    if (value !== redacted && !(value === undefined && isFilled)) return;
    const storedValue = storedHolder?.[key];
    if (typeof storedValue === "string") holder[key] = storedValue;
    else delete holder[key];
  });
  return copy;
}

/** Tunnel keys that cannot work. To be called after filling. */
export function unusableKeys(request: object): Violation[] {
  const violations: Violation[] = [];
  forEachSecret(request as JsonObject, undefined, ({ holder, key, path }) => {
    const value = holder[key];
    const problem = key === "private_key" && typeof value === "string" ? privateKeyProblem(value) : null;
    if (problem !== null) violations.push({ path, message: problem });
  });
  return violations;
}

/** Missing required secrets. To be called after filling. */
export function missingSecrets(request: object): Violation[] {
  const violations: Violation[] = [];
  forEachSecret(request as JsonObject, undefined, ({ holder, key, path, required }) => {
    if (required && typeof holder[key] !== "string") violations.push({ path, message: "required" });
  });
  return violations;
}

// --- traversal -------------------------------------------------------------------------------

interface SecretLocation {
  /** The object that has the secret as its member `key`, or would have it. */
  readonly holder: JsonObject;
  /** The same object of the stored connector, if there is one. */
  readonly storedHolder: JsonObject | undefined;
  readonly key: string;
  readonly path: string;
  readonly required: boolean;
  readonly isInList: boolean;
  readonly isHidden: (holder: JsonObject) => boolean;
}

function forEachSecret(
  root: JsonObject,
  stored: JsonObject | undefined,
  visit: (location: SecretLocation) => void,
): void {
  for (const field of secretFields) walk(root, stored, field, 0, "", visit);
}

/** `depth`: how many of the field's keys lead to `node`. */
function walk(
  node: JsonValue | undefined,
  stored: JsonValue | undefined,
  field: SecretField,
  depth: number,
  path: string,
  visit: (location: SecretLocation) => void,
): void {
  const { keys, required, isHidden = () => true } = field;
  const key = keys[depth];
  if (key === undefined) return;
  if (key === "[]") {
    if (!Array.isArray(node)) return;
    for (const [index, item] of node.entries()) {
      walk(item, sameName(node, index, stored), field, depth + 1, `${path}/${index}`, visit);
    }
    return;
  }
  if (!isJsonObject(node)) return;
  const storedHolder = isJsonObject(stored) ? stored : undefined;
  const at = `${path}/${key}`;
  if (depth === keys.length - 1)
    visit({ holder: node, storedHolder, key, path: at, required, isInList: keys.includes("[]"), isHidden });
  else walk(node[key], storedHolder?.[key], field, depth + 1, at, visit);
}

/** The stored item of the same name; the second of equal names matches the second. Header names ignore case. */
function sameName(
  items: readonly JsonValue[],
  index: number,
  stored: JsonValue | undefined,
): JsonValue | undefined {
  if (!Array.isArray(stored)) return undefined;
  const name = lowerCaseName(items[index]);
  if (name === undefined) return undefined;
  const nth = items.slice(0, index).filter((item) => lowerCaseName(item) === name).length;
  return stored.filter((item) => lowerCaseName(item) === name)[nth];
}

function lowerCaseName(item: JsonValue | undefined): string | undefined {
  return isJsonObject(item) && typeof item.name === "string" ? item.name.toLowerCase() : undefined;
}
