// Lists what is parked of a connector, shows one message, sends messages again, and discards them.

import { Type } from "@sinclair/typebox";
import { Elysia } from "elysia";
import { nameRules, type ParkedSelection, ParkedSelectionSchema } from "../../connector/parked-message.ts";
import { strictObject } from "../../connector/request/schema-forms.ts";
import { invalidRequest } from "../../errors/invalid-input.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import type { AccessOf } from "../guards/authentication.ts";
import { parseJson } from "../guards/json-body.ts";
import { ConnectorPath, knownConnectorId, knownParkedId, ParkedPath } from "../guards/path-ids.ts";
import { NoQuery, problems, schemas } from "../openapi/named-schemas.ts";
import type { ParkedService } from "../services.ts";

/** The name of the credential that a request bears. */
export type CallerOf = (request: Request) => string;

const tags = ["Parking"];
const defaultLimit = 100;

const details = {
  listParked: {
    operationId: "listParked",
    tags,
    summary: "List what is parked of a connector",
    description:
      "Messages that were refused, or whose retries were used up, and those that wait behind them; in the order in which they were " +
      "parked. `next` is the `after` of the next page. With `state=Discarded`: those that were discarded, for 7 days at least.",
  },
  getParked: {
    operationId: "getParked",
    tags,
    summary: "Get a parked message",
    description:
      "With `body=1`: also what is sent, which is rows of the source. Credentials that may only read do not get it: 403.",
  },
  retryParked: {
    operationId: "retryParked",
    tags,
    summary: "Send a parked message again",
    description:
      "The messages of its keys that are before it go first, and what waits behind it follows, in order and with their own " +
      "`Idempotency-Key`s. It happens while the connector runs; one that is stopped does it when it is started.",
  },
  retryAllParked: {
    operationId: "retryAllParked",
    tags,
    summary: "Send parked messages again",
    description: "All, or those that the body selects: `{}` selects all.",
  },
  discardParked: {
    operationId: "discardParked",
    tags,
    summary: "Discard a parked message",
    description:
      "Its rows are never sent. What waits behind it is. Who asked for it, and when, is kept for 7 days at least.",
  },
  discardAllParked: {
    operationId: "discardAllParked",
    tags,
    summary: "Discard parked messages",
    description: "All, or those that the body selects: `{}` selects all.",
  },
};

const ListQuery = strictObject({
  after: Type.Optional(Type.String({ pattern: "^\\d{1,18}$", description: "`next` of the page before." })),
  limit: Type.Optional(
    Type.String({ pattern: "^(?:[1-9]\\d{0,2}|1000)$", description: "Of a page: 1 to 1000. Left out: 100." }),
  ),
  schema: Type.Optional(Type.String({ ...nameRules, description: "Of this schema's tables alone." })),
  table: Type.Optional(Type.String({ ...nameRules, description: "Of tables of this name alone." })),
  before: ParkedSelectionSchema.properties.before,
  state: Type.Optional(
    Type.String({
      pattern: "^(?:Parked|Discarded)$",
      description: "`Parked` or `Discarded`. Left out: `Parked`.",
    }),
  ),
});

const BodyQuery = strictObject({
  body: Type.Optional(Type.String({ pattern: "^[01]$", description: "`1`: with the body." })),
});

const answers = { 202: schemas.ParkedCount, ...problems(404, 422) };

export function parkedRoutes(parked: ParkedService, callerOf: CallerOf, accessOf: AccessOf) {
  return new Elysia({
    name: "parked-routes",
    prefix: "/api/v1/connectors/:connector_id/parked",
    normalize: false,
  })
    .get(
      "",
      async ({ params, query }) =>
        parked.list(knownConnectorId(params.connector_id), {
          after: query.after ?? null,
          limit: Number(query.limit ?? defaultLimit),
          schema: query.schema ?? null,
          table: query.table ?? null,
          before: timeOf(query.before) ?? null,
          isDiscarded: query.state === "Discarded",
        }),
      {
        params: ConnectorPath,
        query: ListQuery,
        response: { 200: schemas.ParkedList, ...problems(404, 422) },
        detail: details.listParked,
      },
    )
    .get(
      "/:parked_id",
      async ({ params, query, request }) => {
        const withBody = query.body === "1";
        if (withBody && accessOf(request) !== "Full") throw bodyForbidden();
        const id = knownConnectorId(params.connector_id);
        return await parked.get(id, knownParkedId(params.parked_id), withBody);
      },
      {
        params: ParkedPath,
        query: BodyQuery,
        response: { 200: schemas.Parked, ...problems(403, 404) },
        detail: details.getParked,
      },
    )
    .post(
      "/retry",
      async ({ params, body, status }) =>
        status(202, await parked.retry(knownConnectorId(params.connector_id), selectionOf(body))),
      {
        parse: parseJson,
        params: ConnectorPath,
        query: NoQuery,
        body: schemas.ParkedSelection,
        response: answers,
        detail: details.retryAllParked,
      },
    )
    .post(
      "/discard",
      async ({ params, body, status, request }) => {
        const id = knownConnectorId(params.connector_id);
        return status(202, await parked.discard(id, selectionOf(body), callerOf(request)));
      },
      {
        parse: parseJson,
        params: ConnectorPath,
        query: NoQuery,
        body: schemas.ParkedSelection,
        response: answers,
        detail: details.discardAllParked,
      },
    )
    .post(
      "/:parked_id/retry",
      async ({ params, status }) => {
        const choice = { id: knownParkedId(params.parked_id) };
        return status(202, await parked.retry(knownConnectorId(params.connector_id), choice));
      },
      {
        params: ParkedPath,
        query: NoQuery,
        response: { 202: schemas.ParkedCount, ...problems(404) },
        detail: details.retryParked,
      },
    )
    .post(
      "/:parked_id/discard",
      async ({ params, status, request }) => {
        const choice = { id: knownParkedId(params.parked_id) };
        const id = knownConnectorId(params.connector_id);
        return status(202, await parked.discard(id, choice, callerOf(request)));
      },
      {
        params: ParkedPath,
        query: NoQuery,
        response: { 202: schemas.ParkedCount, ...problems(404) },
        detail: details.discardParked,
      },
    );
}

function bodyForbidden(): MillraceError {
  const text =
    "These credentials may only read, and the rows of a message are not shown to them. Leave out body=1.";
  return new MillraceError("forbidden", text);
}

/** Of years that have four digits in UTC too, of which the state has all but year 0. */
const firstMs = Date.parse("0001-01-01T00:00:00Z");
const lastMs = Date.parse("9999-12-31T23:59:59.999Z");

/** Its offset is told: without one it would be of the place where the service runs. https://www.rfc-editor.org/rfc/rfc3339#section-5.6 */
const rfc3339 = /^(\d{4}-\d{2}-\d{2})T\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:\d{2})$/;

/** Throws `invalid_request` for a time that there is not. */
function selectionOf({ before, ...selection }: ParkedSelection): ParkedSelection {
  const time = timeOf(before);
  return time === undefined ? selection : { ...selection, before: time };
}

function timeOf(before: string | undefined): string | undefined {
  if (before === undefined) return undefined;
  const [, day] = rfc3339.exec(before) ?? [];
  const ms = day && isDay(day) ? Date.parse(before) : Number.NaN;
  if (!(ms >= firstMs && ms <= lastMs)) {
    throw invalidRequest([
      { path: "/before", message: "expected an RFC 3339 time, as 2026-01-31T12:00:00Z" },
    ]);
  }
  return new Date(ms).toISOString();
}

/** A day beyond the end of its month is taken for one of the next. */
function isDay(day: string): boolean {
  const ms = Date.parse(`${day}T00:00:00Z`);
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(day);
}
