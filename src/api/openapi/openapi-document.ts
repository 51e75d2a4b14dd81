// Turns the document of @elysiajs/swagger into valid OpenAPI 3.0: correct media types, each named schema once, the
// errors common to all operations, and examples. Pure.

import { unbuiltSinkKinds } from "../../connector/config/sink-config.ts";
import { unbuiltSourceKinds } from "../../connector/config/source-config.ts";
import { unbuiltFeatures } from "../../connector/request/unbuilt-features.ts";
import { eventSchemas } from "../../connector/service/service-event.ts";
import { maxBodyBytes } from "../guards/json-body.ts";
import { eventStreamExample, requestExamples } from "./examples.ts";
import { textRule, withRules } from "./openapi-rules.ts";
import {
  asObject,
  convertMembers,
  convertSchema,
  type Json,
  type JsonObject,
  mapValues,
  reference,
} from "./openapi-schemas.ts";
import { withPatch } from "./patch-schemas.ts";
import { nameParts } from "./schema-names.ts";

export interface DocumentOptions {
  readonly version: string;
  readonly authentication: { readonly basic: boolean; readonly bearer: boolean };
}

const methods = ["get", "post", "put", "patch", "delete"];
const json = "application/json";
const mergePatch = "application/merge-patch+json";
const problem = "application/problem+json";
const eventStream = "text/event-stream";
/** Of successes that are no JSON, by operation id. */
const textMedia: Readonly<Record<string, string>> = {
  getMetrics: "text/plain",
  followEvents: eventStream,
};
/** Operations whose success names the configuration. */
const tagged: readonly string[] = ["getConnector", "patchConnector"];
const tagHeader = {
  ETag: { description: "Of the configuration, for `If-Match`.", schema: { type: "string" } },
};

/**
 * @param generated the plugin's document
 * @param named the schemas to define once, by name
 */
export function finishDocument(
  generated: unknown,
  named: Readonly<Record<string, unknown>>,
  options: DocumentOptions,
): JsonObject {
  // As text, which removes symbols and undefined members.
  const { paths } = JSON.parse(JSON.stringify(generated)) as JsonObject;
  const definitions = JSON.parse(JSON.stringify(named)) as JsonObject;
  const names = nameIndex(definitions);
  const converted = mapValues(definitions, (schema) => convertMembers(asObject(schema), names));
  return {
    openapi: "3.0.3",
    info: information(options),
    tags: tagList(),
    servers: [{ url: "/", description: "This service" }],
    paths: convertPaths(asObject(paths), names),
    components: {
      schemas: withPatch(withRules(nameParts(converted)), {
        patch: "ConnectorPatch",
        request: "ConnectorRequest",
      }),
      securitySchemes: securitySchemes(),
    },
    security: security(options),
  };
}

/**
 * Maps a schema's text to its name. The plugin omits parts of a response's outermost schema, so that form is mapped
 * too.
 */
function nameIndex(definitions: JsonObject): ReadonlyMap<string, string> {
  const index = new Map<string, string>();
  for (const [name, definition] of Object.entries(definitions)) {
    index.set(JSON.stringify(definition), name);
    index.set(outermost(asObject(definition)), name);
  }
  return index;
}

function outermost({ type, properties, items, required }: JsonObject): string {
  return JSON.stringify({ outermost: { type, properties, items, required } });
}

function information({ version }: DocumentOptions): JsonObject {
  return {
    title: "millrace",
    version,
    license: { name: "Apache-2.0", url: "https://www.apache.org/licenses/LICENSE-2.0" },
    description:
      "Carries every change of a Postgres database to another Postgres, to Kafka or to an HTTP endpoint. A connector pairs one source " +
      'with one sink. Secrets read `"***"` in every response; sent back as `"***"`, or left out, they stay as they are ' +
      `stored. Unknown keys are refused. ${textRule} A request body may hold ${maxBodyBytes} bytes.\n\n` +
      `Known and not supported yet, refused with 422 \`unsupported_kind\`: sources ${unbuiltSourceKinds.join(", ")}; ` +
      `sinks ${unbuiltSinkKinds.join(", ")}; and ${unbuiltFeatures.map((path) => `\`${path}\``).join(", ")}.`,
  };
}

function tagList(): JsonObject[] {
  return [
    { name: "Connectors", description: "Stored configurations: one source, one sink." },
    { name: "Runs", description: "Commands to connectors, and what happened to them." },
    { name: "Tasks", description: "Copies, comparisons and replays of single tables." },
    { name: "Parking", description: "Messages that were refused, and those that wait behind them." },
    { name: "Inspection", description: "Looking at sources, sinks and configurations; nothing is stored." },
    { name: "Service", description: "The service about itself." },
  ];
}

function securitySchemes(): JsonObject {
  return { basic: { type: "http", scheme: "basic" }, bearer: { type: "http", scheme: "bearer" } };
}

/** Either method is enough; none is needed if the service has none. */
function security({ authentication }: DocumentOptions): Json[] {
  return [
    ...(authentication.basic ? [{ basic: [] }] : []),
    ...(authentication.bearer ? [{ bearer: [] }] : []),
  ];
}

// --- operations ------------------------------------------------------------------------------

function convertPaths(paths: JsonObject, names: ReadonlyMap<string, string>): JsonObject {
  return Object.fromEntries(
    Object.entries(paths).map(([path, item]) => {
      const operations = Object.entries(asObject(item)).filter(([method]) => methods.includes(method));
      const converted = operations.map(([method, operation]) => [
        method,
        convertOperation(method, asObject(operation), names),
      ]);
      return [path, Object.fromEntries(converted)];
    }),
  );
}

function convertOperation(
  method: string,
  operation: JsonObject,
  names: ReadonlyMap<string, string>,
): JsonObject {
  const id = String(operation.operationId);
  const { parameters, requestBody, responses, ...rest } = operation;
  const isOpen = Array.isArray(operation.security);
  const extra = extraProblems({
    hasBody: requestBody !== undefined,
    hasQuery: String(operation.operationId) !== "getMetrics" && !isOpen,
    isGuarded: !isOpen,
    isWrite: method !== "get",
  });
  return {
    ...rest,
    ...(Array.isArray(parameters) &&
      parameters.length > 0 && {
        parameters: parameters.map((parameter) => convertParameter(parameter, names)),
      }),
    ...(requestBody !== undefined && { requestBody: convertRequestBody(asObject(requestBody), id, names) }),
    responses: convertResponses({ ...extra, ...asObject(responses) }, id, names),
  };
}

/** Problems that every operation of a kind may return, even if its route does not list them. */
function extraProblems(facts: {
  hasBody: boolean;
  hasQuery: boolean;
  isGuarded: boolean;
  isWrite: boolean;
}): JsonObject {
  const statuses = [
    ...(facts.hasBody || facts.hasQuery ? ["400"] : []),
    ...(facts.isGuarded ? ["401"] : []),
    ...(facts.isWrite ? ["403"] : []),
    ...(facts.hasBody ? ["413", "415"] : []),
    "500",
    "503",
  ];
  return Object.fromEntries(statuses.map((status) => [status, {}]));
}

function convertParameter(parameter: Json, names: ReadonlyMap<string, string>): JsonObject {
  const { schema, ...rest } = asObject(parameter);
  return { ...rest, schema: convertSchema(schema ?? {}, names) };
}

function convertRequestBody(body: JsonObject, id: string, names: ReadonlyMap<string, string>): JsonObject {
  const schema = convertSchema(schemaOf(body) ?? {}, names);
  const examples = requestExamples[id];
  const media = { schema, ...(examples && { examples: JSON.parse(JSON.stringify(examples)) as Json }) };
  // One media type for each body: with a second one some generators make methods that do not compile.
  return { required: true, content: { [id === "patchConnector" ? mergePatch : json]: media } };
}

function convertResponses(responses: JsonObject, id: string, names: ReadonlyMap<string, string>): JsonObject {
  return Object.fromEntries(
    Object.entries(responses)
      .sort(([a], [b]) => Number(a) - Number(b))
      .map(([status, response]) => [status, convertResponse(status, asObject(response), id, names)]),
  );
}

function convertResponse(
  status: string,
  response: JsonObject,
  id: string,
  names: ReadonlyMap<string, string>,
): JsonObject {
  if (Number(status) >= 400) {
    const content = { [problem]: { schema: reference("Problem") } };
    const challenge = { "WWW-Authenticate": { schema: { type: "string" } } };
    return { description: statusText(status), ...(status === "401" && { headers: challenge }), content };
  }
  const description = typeof response.description === "string" ? response.description : statusText(status);
  const schema = schemaOf(response);
  if (schema === null || schema.type === "undefined") return { description };
  const name = names.get(outermost(schema));
  const mediaType = textMedia[id] ?? json;
  const converted = name === undefined ? convertSchema(schema, names) : reference(name);
  const media = { schema: converted, ...(mediaType === eventStream && describedEvents(names)) };
  return { description, ...(tagged.includes(id) && { headers: tagHeader }), content: { [mediaType]: media } };
}

/** OpenAPI 3.0 has no words for a stream of events: their schemas stand beside it, by the names of the events. */
function describedEvents(names: ReadonlyMap<string, string>): JsonObject {
  const described = mapValues(JSON.parse(JSON.stringify(eventSchemas)) as JsonObject, (schema) =>
    convertSchema(schema, names),
  );
  return { "x-events": described, example: eventStreamExample };
}

/** The schema of the first media type. */
function schemaOf(holder: JsonObject): JsonObject | null {
  const [media] = Object.values(asObject(holder.content ?? {}));
  return media === undefined ? null : asObject(asObject(media).schema ?? {});
}

const statusTexts: Readonly<Record<string, string>> = {
  "200": "Done.",
  "201": "Created.",
  "202": "Accepted; it goes on after the answer.",
  "204": "Done. No content.",
  "400": "The body is no JSON, or a query parameter is unknown.",
  "401":
    "Credentials are missing or wrong; or none are asked for, and the Host header names another machine.",
  "403": "The credentials may only read, or a page of another site sent the request.",
  "404": "There is no such connector or task.",
  "409": "The state of the record forbids it.",
  "412": "The connector is not as `If-Match` or `If-None-Match` demands.",
  "413": "The body is larger than 1 MiB.",
  "415": "The media type is not one that the endpoint takes.",
  "422": "The request is not valid; `errors` lists everything that is wrong.",
  "500": "The service failed; `id` can be found in its log.",
  "502": "The source cannot be reached, or refuses.",
  "503": "The service cannot work now.",
  "504": "The source did not answer in time.",
};

function statusText(status: string): string {
  return statusTexts[status] ?? status;
}
