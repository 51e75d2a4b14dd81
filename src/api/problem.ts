// Problem responses (RFC 9457), the one form of everything that is not a success. The callers decide which error it is.

import { Type } from "@sinclair/typebox";
import { strictObject } from "../connector/request/schema-forms.ts";
import type { MillraceError, Violation } from "../errors/millrace-error.ts";

export const ProblemSchema = strictObject(
  {
    type: Type.String({ description: "Always `about:blank`: `code` tells problems apart." }),
    title: Type.String(),
    status: Type.Integer({ minimum: 400, maximum: 599 }),
    code: Type.String({ description: "What went wrong, for programs." }),
    detail: Type.String({ description: "What went wrong, for people." }),
    errors: Type.Optional(
      Type.Array(
        strictObject({
          path: Type.String({
            description: "JSON pointer (RFC 6901) into the request body, or a parameter's name.",
          }),
          message: Type.String(),
        }),
        { description: "Everything that is wrong with the request." },
      ),
    ),
    id: Type.Optional(Type.String({ description: "With status 500: where to look in the log." })),
  },
  { description: "RFC 9457 problem details." },
);

export interface ProblemOptions {
  readonly headers?: Readonly<Record<string, string>>;
}

/** The response for an error that clients may see. */
export function problemResponse(error: MillraceError, options: ProblemOptions = {}): Response {
  return response(
    {
      type: "about:blank",
      title: error.title,
      status: error.status,
      code: error.code,
      detail: error.message,
      ...(error.violations.length > 0 && { errors: error.violations }),
    },
    options.headers,
  );
}

/** The response for an internal error: an id, and nothing that reveals the inside of the service. */
export function faultResponse(id: string): Response {
  return response({
    type: "about:blank",
    title: "Internal error",
    status: 500,
    code: "internal",
    detail: "The service failed. Its log tells more under this id.",
    id,
  });
}

interface Problem {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly code: string;
  readonly detail: string;
  readonly errors?: readonly Violation[];
  readonly id?: string;
}

function response(problem: Problem, headers: Readonly<Record<string, string>> = {}): Response {
  return new Response(JSON.stringify(problem), {
    status: problem.status,
    headers: { ...headers, "content-type": "application/problem+json", "cache-control": "no-store" },
  });
}
