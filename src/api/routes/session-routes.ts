// What the caller may do, so that a client can offer that and no more.

import { Elysia } from "elysia";
import { MillraceError } from "../../errors/millrace-error.ts";
import type { AccessOf } from "../guards/authentication.ts";
import { NoQuery, schemas } from "../openapi/named-schemas.ts";

export function sessionRoutes(accessOf: AccessOf) {
  return new Elysia({ name: "session-routes", normalize: false }).get(
    "/api/v1/session",
    ({ request }) => {
      const access = accessOf(request);
      if (access === null) throw new MillraceError("unauthorized", "Credentials are required.");
      return { access };
    },
    {
      query: NoQuery,
      response: { 200: schemas.Session },
      detail: {
        operationId: "getSession",
        tags: ["Service"],
        summary: "What the caller may do",
      },
    },
  );
}
