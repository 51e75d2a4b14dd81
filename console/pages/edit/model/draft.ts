// Configurations to begin with, and what to ask the API for the defaults. Pure.

import type { ConnectorRequest } from "../../../../src/connector/connector.ts";
import type { JsonObject, JsonValue } from "../../../../src/connector/request/merge-patch.ts";
import { isObject, type Pointer, valueAt, withValue } from "./pointer.ts";

type Kinds<K extends "source" | "sink"> = keyof ConnectorRequest[K] & string;
export type SinkKind = Kinds<"sink">;

export const sinkKinds: Readonly<Record<SinkKind, string>> = {
  postgres: "Postgres",
  webhook: "Webhook",
  kafka: "Kafka",
};

/** What a kind of sink needs to be there, before anybody has typed. */
export const blankSinks: Readonly<Record<SinkKind, JsonObject>> = {
  postgres: { connection: {} },
  webhook: {},
  kafka: { connection: {}, format: { native: {} }, topic_options: {} },
};

export function blankConnector(): JsonObject {
  return {
    id: "",
    source: { postgres: { connection: {}, replication_type: { logical_replication: {} } } },
    sink: { postgres: blankSinks.postgres },
  };
}

/** By these a Kafka sink finds its checkpoint, and fences others: two connectors must not share them. */
const identity: readonly Pointer[] = [
  "/sink/kafka/name",
  "/sink/kafka/connection/config/transactions/transactional_id",
];

/** A copy of another connector under a free id. Its secrets read `"***"`, which means the other's. */
export function cloneOf(connector: JsonObject, isTaken: (id: string) => boolean): JsonObject {
  const copy = { ...connector, id: freeId(String(connector.id), isTaken), name: null };
  const own = identity.filter((pointer) => valueAt(copy, pointer) !== undefined);
  return own.reduce((draft, pointer) => withValue(draft, pointer, undefined), copy as JsonObject);
}

/** The first of `orders`, `orders-2`, … that nobody has. */
export function freeId(wanted: string, isTaken: (id: string) => boolean): string {
  const base = wanted
    .replaceAll(/[^A-Za-z0-9_-]+/g, "-")
    .replaceAll(/^-+|-+$/g, "")
    .slice(0, 26);
  if (base === "" || !isTaken(base)) return base;
  for (let number = 2; ; number++) if (!isTaken(`${base}-${number}`)) return `${base}-${number}`;
}

export function sinkKindOf(draft: JsonObject): SinkKind {
  const sink = valueAt(draft, "/sink" satisfies Pointer);
  return (Object.keys(sinkKinds) as SinkKind[]).find((kind) => isObject(sink) && kind in sink) ?? "postgres";
}

/** Unions whose kind decides which defaults there are. */
const decisive: readonly Pointer[] = [
  "/source/postgres/replication_type",
  "/source/postgres/system_columns/op",
  "/sink/webhook/format",
  "/sink/kafka/format",
  "/sink/kafka/connection/config/transactions",
];
const decisiveWords: readonly Pointer[] = ["/sink/kafka/connection/config/producer_preset"];

/** A valid connector of the draft's kinds: the API fills its defaults, whatever the draft still lacks. */
export function skeletonOf(draft: JsonObject): JsonObject {
  const connection = { host: "host", user: "user", password: "password", database: "database" };
  const sinks: Readonly<Record<SinkKind, JsonObject>> = {
    postgres: { connection },
    webhook: { url: "https://host" },
    kafka: { connection: { brokers: ["host:9092"] }, format: { native: {} }, topic_options: {} },
  };
  const kind = sinkKindOf(draft);
  let skeleton: JsonObject = {
    id: "id",
    source: { postgres: { connection, replication_type: { logical_replication: {} } } },
    sink: { [kind]: sinks[kind] },
  };
  for (const place of decisive) {
    const chosen = valueAt(draft, place);
    if (isObject(chosen) && isReached(skeleton, place))
      skeleton = withValue(skeleton, place, bare(place, chosen));
  }
  for (const place of decisiveWords) {
    const word = valueAt(draft, place);
    if (typeof word === "string" && isReached(skeleton, place)) skeleton = withValue(skeleton, place, word);
  }
  return skeleton;
}

/** The object alone, or the union with its kind. */
function bare(place: Pointer, chosen: JsonObject): JsonValue {
  const [kind] = Object.keys(chosen);
  if (place.endsWith("/op") || place.endsWith("/transactions") || kind === undefined) return {};
  return { [kind]: {} };
}

/** Only the sink that is there. */
function isReached(skeleton: JsonObject, place: Pointer): boolean {
  return (
    place.startsWith("/source") || valueAt(skeleton, place.split("/").slice(0, 3).join("/")) !== undefined
  );
}
