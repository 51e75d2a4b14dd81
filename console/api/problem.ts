// What a request failed with, in the API's words (RFC 9457) where it answered.

/** One violation: a JSON pointer into the request, and what is wrong there. */
export interface FieldProblem {
  readonly path: string;
  readonly message: string;
}

export class ApiProblem extends Error {
  override readonly name = "ApiProblem";

  /** @param status the HTTP status; 0: the service was not reached */
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly fields: readonly FieldProblem[] = [],
  ) {
    super(message);
  }
}

/** Reads a problem document; whatever else a proxy may answer becomes a sentence. */
export function problemOf(status: number, body: unknown): ApiProblem {
  const { code, detail, title, errors } = (typeof body === "object" && body !== null ? body : {}) as {
    code?: unknown;
    detail?: unknown;
    title?: unknown;
    errors?: unknown;
  };
  const message = [detail, title].find((text): text is string => typeof text === "string" && text !== "");
  return new ApiProblem(
    status,
    typeof code === "string" ? code : "",
    message ?? `The service answered ${status}.`,
    fieldsOf(errors),
  );
}

/** What went wrong, for people. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function fieldsOf(errors: unknown): FieldProblem[] {
  if (!Array.isArray(errors)) return [];
  return errors.flatMap((entry: { path?: unknown; message?: unknown } | null) =>
    typeof entry?.path === "string" && typeof entry.message === "string"
      ? [{ path: entry.path, message: entry.message }]
      : [],
  );
}
