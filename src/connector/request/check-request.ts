// Checks a request: its schema, kinds that are not built, and rules between fields. It finds all violations at once. Unknown keys:
// schema-forms.ts forbids them, violations.ts names them.
// resolve-connector.ts checks secrets after filling them; here those are listed beside other violations that nothing can fill.

import { type Static, type TSchema, Type } from "@sinclair/typebox";
import { invalidRequest } from "../../errors/invalid-input.ts";
import { MillraceError, type Violation } from "../../errors/millrace-error.ts";
import { parseBastion } from "../config/bastions.ts";
import { BufferRequestSchema } from "../config/buffer-config.ts";
import type { CatalogRequest } from "../config/catalog.ts";
import type { PostgresConnectionRequest } from "../config/connection.ts";
import { isCronExpression } from "../config/cron-expression.ts";
import { hostKeyProblem } from "../config/host-keys.ts";
import { unbuiltKafkaSerdeKinds } from "../config/kafka/kafka-format.ts";
import { kafkaRules } from "../config/kafka/kafka-rules.ts";
import { nextDue } from "../config/schedule.ts";
import { SinkRequestSchema, unbuiltSinkKinds } from "../config/sink-config.ts";
import { SourceRequestSchema, unbuiltReplicationKinds, unbuiltSourceKinds } from "../config/source-config.ts";
import { unbuiltSerdeKinds } from "../config/webhook-format.ts";
import { headerClashes } from "../config/webhook-headers.ts";
import { ConnectorRequestSchema } from "../connector.ts";
import { fillSecrets, missingSecrets } from "../secrets.ts";
import { strictObject } from "./schema-forms.ts";
import { notSupported, unbuiltPaths, unbuiltWords } from "./unbuilt-features.ts";
import { maxViolations, schemaViolations } from "./violations.ts";

export const SourceBodySchema = strictObject({ source: SourceRequestSchema });
export const SinkBodySchema = strictObject({ sink: SinkRequestSchema });
export const BufferBodySchema = strictObject({ buffer: BufferRequestSchema });

/** What the rules check: a connector, or a part of one under the same keys. */
const PartSchema = Type.Partial(ConnectorRequestSchema);
type Part = Static<typeof PartSchema>;

/** Kinds at a path whose names are known, but which are not built. */
interface UnbuiltKinds {
  readonly path: RegExp;
  readonly kinds: readonly string[];
}

const unbuiltKinds: readonly UnbuiltKinds[] = [
  { path: /^\/source$/, kinds: unbuiltSourceKinds },
  { path: /^\/source\/postgres\/replication_type$/, kinds: unbuiltReplicationKinds },
  { path: /^\/sink$/, kinds: unbuiltSinkKinds },
  { path: /^\/sink\/webhook\/format\/\w+\/format_config\/(?:value|key)_serde$/, kinds: unbuiltSerdeKinds },
  {
    path: /^\/sink\/webhook\/format\/\w+\/format_config\/(?:value|key)_serde\/json$/,
    kinds: ["schema_registry"],
  },
  { path: /^\/sink\/kafka\/format\/\w+\/format_config\/(?:value|key)_serde$/, kinds: unbuiltKafkaSerdeKinds },
  {
    path: /^\/sink\/kafka\/format\/\w+\/format_config\/(?:value|key)_serde\/json$/,
    kinds: ["schema_registry"],
  },
];

/** A rule between fields. It is checked only if nothing under `within` breaks the schema. */
interface Rule {
  readonly within: readonly string[];
  readonly check: (part: Part) => readonly Violation[];
}

const sourceConnection = "/source/postgres/connection";
const sinkConnection = "/sink/postgres/connection";

const rules: readonly Rule[] = [
  {
    within: [`${sourceConnection}/tunnel`],
    check: (part) => checkTunnel(part.source?.postgres?.connection, sourceConnection),
  },
  {
    within: [`${sinkConnection}/tunnel`],
    check: (part) => checkTunnel(part.sink?.postgres?.connection, sinkConnection),
  },
  { within: ["/source/postgres/catalog"], check: checkCatalog },
  { within: ["/schedule", "/source/postgres/replication_type"], check: checkSchedule },
  { within: ["/sink/postgres/target_schema"], check: checkTargetSchema },
  { within: ["/sink/webhook/url"], check: checkUrl },
  { within: ["/limits/receipts_hours", "/sink"], check: checkReceipts },
  { within: ["/limits/verify", "/sink", "/source/postgres/replication_type"], check: checkVerify },
  {
    within: ["/sink/webhook/headers", "/sink/webhook/auth", "/sink/webhook/signing"],
    check: ({ sink }) => (sink?.webhook ? headerClashes(sink.webhook) : []),
  },
  ...kafkaRules.map(
    ({ within, check }): Rule => ({ within, check: ({ sink }) => (sink?.kafka ? check(sink.kafka) : []) }),
  ),
];

/**
 * Throws `invalid_request` with every violation of the schema and of the rules, or `unsupported_kind` if the only
 * problem is a kind or a feature that is not built.
 *
 * @param mayBeFilled a stored connector may have the secrets that are left out
 */
export function checkRequest<T extends TSchema>(
  schema: T,
  body: unknown,
  mayBeFilled = true,
): asserts body is Static<T> {
  const broken = schemaViolations(schema, body);
  const words = unbuiltWords(body);
  const unbuilt = [...broken.map(({ path }) => path).filter(isUnbuiltKind), ...unbuiltPaths(body), ...words];
  const isInside = (path: string) => unbuilt.some((kind) => path.startsWith(`${kind}/`));
  const violations = broken.filter(
    ({ path }) => !isUnbuiltKind(path) && !isInside(path) && !words.includes(path),
  );
  for (const rule of rules) {
    if (broken.some(({ path }) => rule.within.some((within) => touches(path, within)))) continue;
    violations.push(...rule.check(body as Part));
  }
  // By themselves they have a code of their own.
  if (violations.length > 0 && !mayBeFilled) violations.push(...secretsMissing(body, broken));
  violations.splice(maxViolations);
  const unsupported = unbuilt.map((path) => ({ path, message: notSupported }));
  if (violations.length > 0) throw invalidRequest([...violations, ...unsupported]);
  if (unsupported.length === 0) return;
  throw new MillraceError("unsupported_kind", "This is known and not supported yet.", {
    violations: unsupported,
  });
}

/** Of what has the right form. */
function secretsMissing(body: unknown, broken: readonly Violation[]): readonly Violation[] {
  if (typeof body !== "object" || body === null) return [];
  const isBroken = (within: string) => broken.some(({ path }) => touches(path, within));
  // Which of its secrets are required depends on the rest of it.
  const request = isBroken("/sink/kafka") ? { ...body, sink: {} } : body;
  return missingSecrets(fillSecrets(request, null, "all")).filter(({ path }) => !isBroken(path));
}

export function checkConnectorRequest(body: unknown, mayBeFilled = true): void {
  checkRequest(ConnectorRequestSchema, body, mayBeFilled);
}

export function checkSourceBody(body: unknown, mayBeFilled = true): void {
  checkRequest(SourceBodySchema, body, mayBeFilled);
}

/** A buffer that is not built is for its validation to report. */
export function checkBufferBody(body: unknown): void {
  const violations = schemaViolations(BufferBodySchema, body);
  if (violations.length > 0) throw invalidRequest(violations);
}

export function checkSinkBody(body: unknown, mayBeFilled = true): void {
  checkRequest(SinkBodySchema, body, mayBeFilled);
}

function isUnbuiltKind(path: string): boolean {
  const end = path.lastIndexOf("/");
  const parent = path.slice(0, end);
  const key = path.slice(end + 1);
  return unbuiltKinds.some((unbuilt) => unbuilt.path.test(parent) && unbuilt.kinds.includes(key));
}

/** Whether one path contains the other. */
function touches(path: string, within: string): boolean {
  return path === within || path.startsWith(`${within}/`) || within.startsWith(`${path}/`) || path === "";
}

// --- rules -----------------------------------------------------------------------------------

function checkTunnel(connection: PostgresConnectionRequest | undefined, path: string): Violation[] {
  const { bastion_alternates: alternates = [], host_keys: hostKeys = [] } = connection?.tunnel?.ssh ?? {};
  const bastions = alternates.flatMap((text, index) =>
    parseBastion(text, 22) === null
      ? [{ path: `${path}/tunnel/ssh/bastion_alternates/${index}`, message: "expected host or host:port" }]
      : [],
  );
  const keys = hostKeys.flatMap((text, index) => {
    const message = hostKeyProblem(text);
    return message === null ? [] : [{ path: `${path}/tunnel/ssh/host_keys/${index}`, message }];
  });
  return [...bastions, ...keys];
}

function checkCatalog(part: Part): Violation[] {
  const catalog = part.source?.postgres?.catalog;
  if (!catalog) return [];
  const root = "/source/postgres/catalog";
  const violations = repeatedNames(catalog.schemas, `${root}/schemas`);
  for (const { path, table } of tablesOf(catalog, root)) {
    violations.push(...repeatedNames(table.columns, `${path}/columns`));
    for (const [index, column] of (table.columns ?? []).entries()) {
      const columnPath = `${path}/columns/${index}`;
      if (column.primary_key && column.action === "Exclude") {
        violations.push({
          path: `${columnPath}/action`,
          message: "a column of the primary key cannot be excluded",
        });
      }
      if (column.hash && !catalog.column_hashing) {
        violations.push({ path: `${columnPath}/hash`, message: "needs column_hashing in the catalog" });
      }
    }
  }
  for (const [index, schema] of (catalog.schemas ?? []).entries()) {
    violations.push(...repeatedNames(schema.tables, `${root}/schemas/${index}/tables`));
  }
  return violations;
}

function* tablesOf(catalog: CatalogRequest, root: string) {
  for (const [schemaIndex, schema] of (catalog.schemas ?? []).entries()) {
    for (const [index, table] of (schema.tables ?? []).entries()) {
      yield { path: `${root}/schemas/${schemaIndex}/tables/${index}`, table };
    }
  }
}

function repeatedNames(items: readonly { readonly name: string }[] | undefined, path: string): Violation[] {
  const seen = new Set<string>();
  const violations: Violation[] = [];
  for (const [index, { name }] of (items ?? []).entries()) {
    if (seen.has(name)) violations.push({ path: `${path}/${index}/name`, message: "listed more than once" });
    seen.add(name);
  }
  return violations;
}

function checkSchedule(part: Part): Violation[] {
  if (!part.schedule) return [];
  const violations: Violation[] = [];
  const replicationType = part.source?.postgres?.replication_type;
  if (replicationType && !replicationType.snapshot) {
    violations.push({ path: "/schedule", message: "allowed with replication_type snapshot only" });
  }
  const cron = part.schedule.cron;
  const isExpression = cron !== undefined && isCronExpression(cron.expression);
  if (cron && !isExpression) {
    violations.push({
      path: "/schedule/cron/expression",
      message: "expected a cron expression of five fields",
    });
  }
  if (cron && isExpression && nextDue({ cron: { ...cron, timezone: "UTC" } }, new Date(0)) === null) {
    violations.push({ path: "/schedule/cron/expression", message: "never comes: there is no such day" });
  }
  if (cron && !isTimezone(cron.timezone)) {
    violations.push({
      path: "/schedule/cron/timezone",
      message: "expected a name of the IANA time zone database",
    });
  }
  return violations;
}

function isTimezone(name: string): boolean {
  // Intl accepts "+01:00" too, which is not a name of the database.
  if (!/^[A-Za-z]/.test(name)) return false;
  try {
    new Intl.DateTimeFormat("en", { timeZone: name });
    return true;
  } catch {
    return false;
  }
}

/** NAMEDATALEN - 1: Postgres silently truncates a longer name, and what was created under it is not found again. */
const maxNameBytes = 63;
const reservedSchemas = ["information_schema", "millrace"];

function checkTargetSchema(part: Part): Violation[] {
  const name = part.sink?.postgres?.target_schema;
  if (!name) return [];
  const path = "/sink/postgres/target_schema";
  if (Buffer.byteLength(name) > maxNameBytes || name.includes("\0"))
    return [{ path, message: `expected a name of at most ${maxNameBytes} bytes, without NUL` }];
  if (!name.startsWith("pg_") && !reservedSchemas.includes(name)) return [];
  return [{ path, message: "kept by the server, or by millrace, for itself" }];
}

function checkUrl(part: Part): Violation[] {
  const url = part.sink?.webhook?.url;
  if (url === undefined || URL.canParse(url)) return [];
  return [{ path: "/sink/webhook/url", message: "expected an http or https address" }];
}

/** A Postgres sink answers itself: the row is there or not. */
function checkReceipts({ limits, sink }: Part): readonly Violation[] {
  if ((limits?.receipts_hours ?? 0) === 0) return [];
  if (!sink?.postgres) return [];
  const message =
    "a Postgres sink sends no requests that receipts could be of: look at the row in its table, or set history_enabled for what it was";
  return [{ path: "/limits/receipts_hours", message }];
}

/** Only a stream into a Postgres sink can be compared with its source: see `verify-task`. */
function checkVerify({ limits, source, sink }: Part): readonly Violation[] {
  if ((limits?.verify?.every_hours ?? 0) === 0) return [];
  const isRounds = source?.postgres?.replication_type?.snapshot !== undefined;
  if (!isRounds && !sink?.webhook && !sink?.kafka) return [];
  const message = isRounds
    ? "copies in rounds are not compared: each round brings the tables as they are at the source. Leave it out, or set 0"
    : "only a Postgres sink has rows that could be compared with the source. Leave it out, or set 0";
  return [{ path: "/limits/verify/every_hours", message }];
}
