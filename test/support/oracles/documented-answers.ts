// Whether an answer is one that the OpenAPI document describes: its status, its media type, its body; and whether the
// body of a request is.

import { Ajv } from "ajv";
import addFormats from "ajv-formats";

/** What is wrong with an answer to the operation at `method` and `path`; null: nothing. */
export type CheckAnswer = (
  operation: { readonly method: string; readonly path: string },
  answer: { readonly status: number; readonly contentType: string | null; readonly text: string },
) => string | null;

interface Described {
  readonly content?: Record<string, { readonly schema: object }>;
}

/** OpenAPI 3.0. */
interface Document {
  readonly paths: Record<
    string,
    Record<string, { responses: Record<string, Described>; requestBody?: Described }>
  >;
}

/** What is wrong with the body of a request to the operation at `method` and `path`; null: nothing. */
export function checksBodies(
  document: Document,
): (operation: { readonly method: string; readonly path: string }, body: unknown) => string | null {
  const ajv = ajvWith(document);
  return ({ method, path }, body) => {
    const content = document.paths[path]?.[method.toLowerCase()]?.requestBody?.content ?? {};
    const [mediaType = ""] = Object.keys(content);
    const at = ["paths", path, method.toLowerCase(), "requestBody", "content", mediaType, "schema"];
    const validate = ajv.getSchema(pointerTo(at));
    if (!validate) return "there is no schema";
    return validate(body) ? null : ajv.errorsText(validate.errors);
  };
}

function ajvWith(document: Document): Ajv {
  const ajv = new Ajv({ strict: false, allErrors: true });
  addFormats.default(ajv);
  ajv.addSchema(toJsonSchema(document) as object, "api");
  return ajv;
}

function pointerTo(steps: readonly string[]): string {
  const encoded = steps.map((step) => encodeURIComponent(step.replaceAll("~", "~0").replaceAll("/", "~1")));
  return `api#/${encoded.join("/")}`;
}

export function checksAnswers(document: Document): CheckAnswer {
  const ajv = ajvWith(document);

  return ({ method, path }, { status, contentType, text }) => {
    const described = document.paths[path]?.[method.toLowerCase()]?.responses[status];
    if (!described) return `${status} is not documented`;
    const [mediaType] = Object.keys(described.content ?? {});
    if (mediaType === undefined) return text === "" ? null : "a body where none is documented";
    if (contentType?.split(";")[0] !== mediaType) return `${contentType} in place of ${mediaType}`;
    if (mediaType.startsWith("text/")) return null;
    const at = [
      "paths",
      path,
      method.toLowerCase(),
      "responses",
      String(status),
      "content",
      mediaType,
      "schema",
    ];
    const validate = ajv.getSchema(pointerTo(at));
    if (!validate) return "there is no schema";
    return validate(JSON.parse(text)) ? null : ajv.errorsText(validate.errors);
  };
}

/** `nullable` is a word of OpenAPI 3.0 alone. */
function toJsonSchema(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(toJsonSchema);
  if (typeof schema !== "object" || schema === null) return schema;
  const isNullable = "nullable" in schema && schema.nullable === true;
  const kept = Object.entries(schema).filter(([key]) => !(isNullable && key === "nullable"));
  const converted = Object.fromEntries(kept.map(([key, value]) => [key, toJsonSchema(value)]));
  return isNullable ? { anyOf: [converted, { type: "null" }] } : converted;
}
