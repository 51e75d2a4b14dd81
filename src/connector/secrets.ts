// The secret fields of a connector: redacts them in responses, fills them in requests, and finds missing ones. The
// state store encrypts them.

import type { Violation } from "../errors/millrace-error.ts";
import { usesSasl, usesTls } from "./config/kafka/kafka-rules.ts";
import { hasProperty, isSecretProperty } from "./config/kafka/librdkafka-properties.ts";
import { privateKeyProblem } from "./config/private-key.ts";
import { looksLikeCredential } from "./config/webhook-headers.ts";
import type { ConnectorConfig, ConnectorRequest } from "./connector.ts";
import { copyJson, isJsonObject, type JsonObject, type JsonValue } from "./request/merge-patch.ts";
import { redacted } from "./request/redacted.ts";

interface SecretField {
  /**
   * Keys from the connector down. `[]` stands for each item of an array, which are matched by their `name` or `key`; `*`
   * for each member of an object.
   */
  readonly keys: readonly string[];
  readonly required: boolean | ((holder: JsonObject, root: JsonObject) => boolean);
  /** Whether it can stand beside what the request gives; if not, it is not filled. Absent: always. */
  readonly isUsable?: (holder: JsonObject) => boolean;
  /** Whether responses hide it, where that depends on the object that has it; absent: always. */
  readonly isHidden?: (holder: JsonObject) => boolean;
}

const field = (path: string, required: SecretField["required"]): SecretField => ({
  keys: path.split("."),
  required,
});

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

/** The password of a log-in may come from a property instead. */
function needsPassword(auth: JsonObject, root: JsonObject): boolean {
  const connection = (root as Partial<Pick<ConnectorRequest, "sink">>).sink?.kafka?.connection;
  return usesSasl(auth) && !(connection && hasProperty(connection, "auth", "password"));
}

const kafkaProperty = (list: string): SecretField => ({
  ...field(`sink.kafka.connection.config.${list}.[].value`, true),
  isHidden: ({ key }) => isSecretProperty(String(key)),
});
const brokerMaterial = (name: string): SecretField => ({
  ...field(`sink.kafka.connection.auth.${name}`, false),
  isUsable: (auth) => usesTls(auth) && !auth[`${name}_location`],
});
const registry = "sink.kafka.format.*.format_config.*.avro.schema_registry";
const registryMaterial = (name: string): SecretField => ({
  ...field(`${registry}.${name}`, false),
  isUsable: ({ url }) => /^https:/i.test(String(url)),
});

const kafkaSecrets: readonly SecretField[] = [
  { ...field("sink.kafka.connection.auth.password", needsPassword), isUsable: usesSasl },
  { ...brokerMaterial("ssl_key_password"), isUsable: (auth) => usesTls(auth) && auth.ssl_key !== null },
  ...["ssl_ca", "ssl_certificate", "ssl_key"].map(brokerMaterial),
  ...["global_properties", "producer_properties"].map(kafkaProperty),
  {
    ...field(`${registry}.password`, ({ username }) => username !== undefined),
    isUsable: ({ username }) => username !== undefined,
  },
  ...["ssl_ca", "ssl_certificate", "ssl_key"].map(registryMaterial),
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
  ...kafkaSecrets,
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
  forEachSecret(copy as unknown as JsonObject, from, (location) => {
    const { holder, storedHolder, key, required, isInList, isUsable } = location;
    const value = holder[key];
    const isFilled =
      isUsable && (fillMissing === "all" || isInList || (fillMissing === "required" && required));
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
  readonly isUsable: boolean;
  readonly isInList: boolean;
  readonly isHidden: (holder: JsonObject) => boolean;
}

function forEachSecret(
  root: JsonObject,
  stored: JsonObject | undefined,
  visit: (location: SecretLocation) => void,
): void {
  for (const field of secretFields) walk(root, stored, 0, "", { field, root, visit });
}

interface Walk {
  readonly field: SecretField;
  readonly root: JsonObject;
  readonly visit: (location: SecretLocation) => void;
}

/** `depth`: how many of the field's keys lead to `node`. */
function walk(
  node: JsonValue | undefined,
  stored: JsonValue | undefined,
  depth: number,
  path: string,
  whole: Walk,
): void {
  const { keys } = whole.field;
  const key = keys[depth];
  if (key === undefined) return;
  if (key === "[]") {
    if (!Array.isArray(node)) return;
    for (const [index, item] of node.entries()) {
      walk(item, sameName(node, index, stored), depth + 1, `${path}/${index}`, whole);
    }
    return;
  }
  if (!isJsonObject(node)) return;
  const storedHolder = isJsonObject(stored) ? stored : undefined;
  if (depth === keys.length - 1) {
    whole.visit(locate(node, storedHolder, key, `${path}/${key}`, whole));
    return;
  }
  for (const each of key === "*" ? Object.keys(node) : [key]) {
    walk(node[each], storedHolder?.[each], depth + 1, `${path}/${each}`, whole);
  }
}

function locate(
  holder: JsonObject,
  storedHolder: JsonObject | undefined,
  key: string,
  path: string,
  { field, root }: Walk,
): SecretLocation {
  const { keys, required, isUsable = () => true, isHidden = () => true } = field;
  return {
    holder,
    storedHolder,
    key,
    path,
    isHidden,
    required: typeof required === "function" ? required(holder, root) : required,
    isUsable: isUsable(holder),
    isInList: keys.includes("[]"),
  };
}

/** The stored item of the same name or key; the second of equal names matches the second. Header names ignore case. */
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
  const name = isJsonObject(item) ? (item.name ?? item.key) : undefined;
  return typeof name === "string" ? name.toLowerCase() : undefined;
}
