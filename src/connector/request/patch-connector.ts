// Applies a merge patch to a stored connector, and refuses changes that would make it another connector.

import { invalidRequest } from "../../errors/invalid-input.ts";
import { MillraceError, type Violation } from "../../errors/millrace-error.ts";
import { pointerMember } from "../../errors/pointer-member.ts";
import { withImpliedSettings } from "../config/kafka/implied-settings.ts";
import { transactionalId } from "../config/kafka-config.ts";
import { unbuiltSinkKinds } from "../config/sink-config.ts";
import { unbuiltReplicationKinds, unbuiltSourceKinds } from "../config/source-config.ts";
import { type ConnectorConfig, type ConnectorRequest, ConnectorRequestSchema } from "../connector.ts";
import { fillSecrets } from "../secrets.ts";
import { checkRequest } from "./check-request.ts";
import { completeConnector } from "./complete-connector.ts";
import { givenForm } from "./given-form.ts";
import { copyJson, isJsonObject, type JsonObject, type JsonValue, mergePatch } from "./merge-patch.ts";
import { requireSecrets } from "./resolve-connector.ts";
import { schemaViolations, unknownKey } from "./violations.ts";

/** The endpoints of a connector. With other endpoints, what was delivered so far would be meaningless. */
const immutableFields: readonly string[] = [
  "/source/postgres/connection/host",
  "/source/postgres/connection/port",
  "/source/postgres/connection/database",
  "/sink/postgres/connection/host",
  "/sink/postgres/connection/port",
  "/sink/postgres/connection/database",
  "/sink/webhook/url",
  "/sink/kafka/connection/brokers",
  "/sink/kafka/name",
  // The checkpoint is in Kafka with transactions, and in the state without.
  "/sink/kafka/connection/config/transactions/enabled",
];

/** Unions whose kind cannot change, with all known kinds. */
const immutableKinds: readonly { readonly path: string; readonly kinds: readonly string[] }[] = [
  { path: "/source", kinds: ["postgres", ...unbuiltSourceKinds] },
  {
    path: "/source/postgres/replication_type",
    kinds: ["logical_replication", "snapshot", ...unbuiltReplicationKinds],
  },
  { path: "/sink", kinds: ["postgres", "webhook", "kafka", ...unbuiltSinkKinds] },
];

/**
 * The given form of a connector after `patch` (RFC 7396). What it was before has its secrets; those that are `"***"` in
 * the patch stay.
 *
 * Throws `immutable_field` if a kind, the id or an immutable field would change, `invalid_request`, `unsupported_kind`,
 * or `missing_secret` if a required secret was removed.
 */
export function patchConnector(given: ConnectorRequest, patch: JsonObject): ConnectorRequest {
  const { id } = given;
  const wanted = withoutAliases(patch);
  const before = patchBase(given, wanted) as unknown as JsonObject;
  const after = mergePatch(before, wanted);
  refuse([...changedId(id, patch), ...changedKinds(before, after)]);
  requireKnownKeys(withNulls(before, wanted), new Set(nullPaths(wanted)));

  // A patch that removes the id has no effect: the id is the path's.
  const request: unknown = isJsonObject(after) ? { ...after, id } : after;
  checkRequest(ConnectorRequestSchema, request);
  const filled = fillSecrets(request, given, "in lists");
  requireSecrets(filled);
  const [was, is] = [completeConnector(given, id), completeConnector(filled, id)];
  refuse([...changedFields(asJson(was), asJson(is)), ...changedTransactionalId(was, is)]);
  return givenForm(filled, id);
}

/** The target with null for what the patch removes. Otherwise removing an unknown key would go unnoticed. */
function withNulls(target: JsonValue, patch: JsonValue): JsonValue {
  if (!isJsonObject(patch)) return patch;
  const members = isJsonObject(target) ? target : {};
  const changed = Object.entries(patch).map(
    ([key, value]) =>
      [key, withNulls(Object.hasOwn(members, key) ? (members[key] ?? null) : null, value)] as const,
  );
  return Object.fromEntries([...Object.entries(members), ...changed]);
}

/** JSON pointers of nulls in the patch. */
function nullPaths(patch: JsonValue, at = ""): string[] {
  if (!isJsonObject(patch)) return patch === null ? [at] : [];
  return Object.entries(patch).flatMap(([key, value]) => nullPaths(value, `${at}/${pointerMember(key)}`));
}

function requireKnownKeys(value: JsonValue, removed: ReadonlySet<string>): void {
  const violations = schemaViolations(ConnectorRequestSchema, value).filter(
    ({ path, message }) => message === unknownKey && removed.has(path),
  );
  if (violations.length > 0) throw invalidRequest(violations);
}

function refuse(violations: readonly Violation[]): void {
  if (violations.length === 0) return;
  throw new MillraceError(
    "immutable_field",
    "This cannot change in place; create another connector instead.",
    {
      violations,
    },
  );
}

/** What the patch is merged into. */
function patchBase(given: ConnectorRequest, patch: JsonObject): ConnectorRequest {
  const config = valueAt(patch, "/sink/kafka/connection/config");
  if (!given.sink.kafka || !isJsonObject(config)) return given;
  return { ...given, sink: { kafka: withImpliedSettings(given.sink.kafka, config) } };
}

/** In full form: a field that is left out has its default. */
function asJson(full: ConnectorConfig): JsonObject {
  return full as unknown as JsonObject;
}

function changedId(id: string, patch: JsonObject): Violation[] {
  if (typeof patch.id !== "string" || patch.id === id) return [];
  return [{ path: "/id", message: "cannot change" }];
}

function changedKinds(before: JsonValue, after: JsonValue): Violation[] {
  return immutableKinds.flatMap(({ path, kinds }) => {
    const was = valueAt(before, path);
    const is = valueAt(after, path);
    if (!isJsonObject(was) || !isJsonObject(is)) return [];
    const added = Object.keys(is).some((kind) => !Object.hasOwn(was, kind) && kinds.includes(kind));
    return added ? [{ path, message: "the kind cannot change" }] : [];
  });
}

function changedFields(before: JsonValue, after: JsonValue): Violation[] {
  return immutableFields
    .filter((path) => !Bun.deepEquals(valueAt(before, path), valueAt(after, path)))
    .map((path) => ({ path, message: "cannot change" }));
}

/** The default one counts: to name it changes nothing. */
function changedTransactionalId(
  { id, sink: was }: ConnectorConfig,
  { sink: is }: ConnectorConfig,
): Violation[] {
  if (!was.kafka || !is.kafka || was.kafka.name !== is.kafka.name) return [];
  if (transactionalId(id, was.kafka) === transactionalId(id, is.kafka)) return [];
  const path = "/sink/kafka/connection/config/transactions/transactional_id";
  return [{ path, message: "cannot change" }];
}

function valueAt(root: JsonValue, path: string): JsonValue | undefined {
  let value: JsonValue | undefined = root;
  for (const key of path.slice(1).split("/")) {
    value = isJsonObject(value) && Object.hasOwn(value, key) ? value[key] : undefined;
  }
  return value;
}

/**
 * Renames `headers.static`, an alias of `headers.static_`: merged under its own name, it would be a second setting.
 */
function withoutAliases(patch: JsonObject): JsonObject {
  const headers = valueAt(patch, "/sink/webhook/headers");
  if (!isJsonObject(headers) || !Object.hasOwn(headers, "static") || Object.hasOwn(headers, "static_"))
    return patch;
  const copy = copyJson(patch);
  const own = valueAt(copy, "/sink/webhook/headers");
  if (isJsonObject(own)) {
    own.static_ = own.static ?? null;
    delete own.static;
  }
  return copy;
}
