// Turns every error into problem+json. Elysia's own responses are never used, because they repeat what was sent,
// including passwords.

import type { TSchema } from "@sinclair/typebox";
import { Elysia, type ValidationError } from "elysia";
import { schemaViolations } from "../connector/request/violations.ts";
import { invalidRequest } from "../errors/invalid-input.ts";
import { MillraceError, type Violation } from "../errors/millrace-error.ts";
import { allowedMethods, type RoutePattern } from "./guards/allowed-methods.ts";
import { requestPath } from "./guards/request-path.ts";
import { faultResponse, problemResponse } from "./problem.ts";

/** An internal error: no request should be able to cause one. */
export interface Fault {
  readonly method: string;
  readonly path: string;
  readonly error: unknown;
}

/** Logs the fault and returns the id under which it is logged. */
export type ReportFault = (fault: Fault) => string;

/** @param routes all routes of the service; called when a path was not found */
export function errorHandling(reportFault: ReportFault, routes: () => readonly RoutePattern[]) {
  return new Elysia({ name: "error-handling" }).onError({ as: "global" }, ({ code, error, request, set }) => {
    const path = requestPath(request.url);
    // Headers and status that a handler set for its success do not apply to the problem.
    set.headers = {};
    set.status = 200;
    const fault = () =>
      faultResponse(reportFault({ method: request.method, path, error: withoutValues(error) }));
    // Elysia wraps the errors of body parsers.
    const cause = code === "PARSE" ? error.cause : error;
    if (cause instanceof MillraceError) return cause.status === 500 ? fault() : problemResponse(cause);
    switch (code) {
      case "NOT_FOUND":
        return notFound(allowedMethods(routes(), path), request.method);
      case "VALIDATION":
        // A path that cannot be decoded matches no route.
        if (error.type === "params") return notFound([], request.method);
        // A response that breaks its schema is an internal error.
        return error.type === "response" ? fault() : problemResponse(refusal(error));
      case "PARSE":
        return problemResponse(new MillraceError("malformed_json", "The body is not valid JSON."));
      default:
        return error instanceof URIError ? notFound([], request.method) : fault();
    }
  });
}

/** A method can be allowed and still not found, if the router could not parse the URL's host. */
function notFound(methods: readonly string[], method: string): Response {
  if (methods.length === 0 || methods.includes(method))
    return problemResponse(new MillraceError("not_found", "There is no such path."));
  const allow = methods.join(", ");
  return problemResponse(new MillraceError("method_not_allowed", `This path allows ${allow}.`), {
    headers: { allow },
  });
}

/** The parts of Elysia's ValidationError that are used. */
type RefusedValue = Pick<ValidationError, "type" | "validator" | "value">;

function refusal(error: RefusedValue): MillraceError {
  const violations = violationsOf(error);
  if (error.type === "query") {
    return new MillraceError("invalid_query", "A query parameter is unknown or has a wrong value.", {
      violations,
    });
  }
  return invalidRequest(violations);
}

function violationsOf(error: RefusedValue): Violation[] {
  const schema = schemaOf(error);
  return schema ? schemaViolations(schema, error.value) : [];
}

function schemaOf({ validator }: RefusedValue): TSchema | null {
  // library edge: Elysia passes the compiled validator, whose type lacks the schema.
  const { schema } = validator as { schema?: TSchema };
  return schema ?? null;
}

/** Elysia's validation error contains the refused value. The log gets paths and messages only. */
function withoutValues(error: unknown): unknown {
  if (!(error instanceof Error) || !("validator" in error)) return error;
  const violations = violationsOf(error as Error & RefusedValue).map(
    ({ path, message }) => `${path}: ${message}`,
  );
  return new Error(`The response breaks its schema. ${violations.slice(0, 20).join("; ")}`);
}
