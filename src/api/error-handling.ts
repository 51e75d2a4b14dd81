// Turns whatever is thrown into problem+json. Elysia's own answers would repeat what was sent, passwords
// included: nothing of them is used.

import type { TSchema } from "@sinclair/typebox";
import { Elysia, type ValidationError } from "elysia";
import { schemaViolations } from "../connector/request/violations.ts";
import { MillraceError, type Violation } from "../errors/millrace-error.ts";
import { allowedMethods, type RoutePattern } from "./guards/allowed-methods.ts";
import { requestPath } from "./guards/request-path.ts";
import { faultResponse, problemResponse } from "./problem.ts";

/** A fault of ours: something that no request should be able to bring about. */
export interface Fault {
  readonly method: string;
  readonly path: string;
  readonly error: unknown;
}

/** Writes the fault to the log and returns the id that it can be found under. */
export type ReportFault = (fault: Fault) => string;

/**
 * @param routes all routes of the service, asked for when a path was not found
 */
export function errorHandling(reportFault: ReportFault, routes: () => readonly RoutePattern[]) {
  return new Elysia({ name: "error-handling" }).onError({ as: "global" }, ({ code, error, request, set }) => {
    const path = requestPath(request.url);
    // What a handler set for its success is not for the problem.
    set.headers = {};
    set.status = 200;
    const fault = () =>
      faultResponse(reportFault({ method: request.method, path, error: withoutValues(error) }));
    // What a parser throws comes wrapped.
    const cause = code === "PARSE" ? error.cause : error;
    if (cause instanceof MillraceError) return cause.status === 500 ? fault() : problemResponse(cause);
    switch (code) {
      case "NOT_FOUND":
        return notFound(allowedMethods(routes(), path), request.method);
      case "VALIDATION":
        // A path that cannot be decoded names nothing.
        if (error.type === "params") return notFound([], request.method);
        // A response that breaks its schema is a fault of ours.
        return error.type === "response" ? fault() : problemResponse(refusal(error));
      case "PARSE":
        return problemResponse(new MillraceError("malformed_json", "The body is not valid JSON."));
      default:
        return error instanceof URIError ? notFound([], request.method) : fault();
    }
  });
}

/** A method that is allowed and was not found: the router could make nothing of the URL's host. */
function notFound(methods: readonly string[], method: string): Response {
  if (methods.length === 0 || methods.includes(method))
    return problemResponse(new MillraceError("not_found", "There is no such path."));
  const allow = methods.join(", ");
  return problemResponse(new MillraceError("method_not_allowed", `This path allows ${allow}.`), {
    headers: { allow },
  });
}

/** What is needed of Elysia's ValidationError. */
type RefusedValue = Pick<ValidationError, "type" | "validator" | "value">;

function refusal(error: RefusedValue): MillraceError {
  const violations = violationsOf(error);
  if (error.type === "query") {
    return new MillraceError("invalid_query", "A query parameter is unknown or has a wrong value.", {
      violations,
    });
  }
  return new MillraceError("invalid_request", "The request is not valid; `errors` lists what is wrong.", {
    violations,
  });
}

function violationsOf(error: RefusedValue): Violation[] {
  const schema = schemaOf(error);
  return schema ? schemaViolations(schema, error.value) : [];
}

function schemaOf({ validator }: RefusedValue): TSchema | null {
  // library edge: Elysia hands over the compiled validator, whose schema is not in its type.
  const { schema } = validator as { schema?: TSchema };
  return schema ?? null;
}

/** An error of Elysia's validation holds the value that it refused: the log gets the places only. */
function withoutValues(error: unknown): unknown {
  if (!(error instanceof Error) || !("validator" in error)) return error;
  const places = violationsOf(error as Error & RefusedValue).map(
    ({ path, message }) => `${path}: ${message}`,
  );
  return new Error(`The response breaks its schema. ${places.slice(0, 20).join("; ")}`);
}
