// What an answer of the registry means that is not the one that was asked for, as an error for people. Pure.
// https://docs.confluent.io/platform/current/schema-registry/develop/api.html#errors

import { isJsonObject, type JsonObject } from "../../../connector/request/merge-patch.ts";
import { redacted } from "../../../connector/request/redacted.ts";
import { plainLine, saying, shortened } from "../../../errors/answer-in-reason.ts";
import type { ErrorCode } from "../../../errors/error-codes.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import type { RegistryAnswer, RegistryRequests } from "./registry-request.ts";

/** Characters of the registry's own words: an incompatibility is told with the field and both types. */
const maxCharacters = 600;

/** `subject`: whose schema was asked for; null: none. */
export function registryFailure(
  registry: Pick<RegistryRequests, "address" | "secrets">,
  subject: string | null,
  answer: RegistryAnswer,
): MillraceError {
  const { status, body } = answer;
  const [code, what] = meaningOf(answer, subject);
  const words = saying(wordsOf(body, registry.secrets));
  return new MillraceError(
    code,
    `The schema registry ${registry.address} answered ${status}: ${what}${words}.`.replace(/\.\.$/, "."),
  );
}

function meaningOf(
  { status, body, isCut }: RegistryAnswer,
  subject: string | null,
): readonly [ErrorCode, string] {
  const of = subject === null ? "its subjects" : `subject ${JSON.stringify(subject)}`;
  // The web server before the registry's own code answers it, in whatever form.
  if (status === 401) return ["sink_authentication_failed", "check user name and password"];
  if (status === 408 || status === 425 || status === 429 || status >= 500)
    return ["sink_unreachable", "it is tried again"];
  if (status < 300 && isCut && /^\s*\{/.test(body))
    return ["sink_unreachable", "the answer broke off, or is too long; it is tried again"];
  if (status >= 300 && status < 400)
    return ["sink_unreachable", "redirects are not followed; use the url that it redirects to"];
  // Of what stands between, such as a proxy whose registry is being replaced: no verdict on a schema.
  if (status < 300 || typeof membersOf(body)?.error_code !== "number")
    return ["sink_unreachable", "that is no answer of a schema registry; check the url"];
  if (status === 403) return ["sink_authentication_failed", `check what the user may do with ${of}`];
  if (status === 404 && subject !== null) {
    const remedy = "register it, or set auto_register";
    return [
      "sink_schema_rejected",
      `the schema of ${of} is not there; ${remedy}, and check the registry's url`,
    ];
  }
  if (status === 409) {
    const remedy = "change the subject's compatibility, or use another topic";
    return ["sink_schema_rejected", `the schema of ${of} is not compatible with the earlier one; ${remedy}`];
  }
  return ["sink_schema_rejected", `it does not take the schema of ${of}`];
}

/** The `message` of the registry's error, or nothing where it is none. */
function wordsOf(body: string, secrets: readonly string[]): string | null {
  const message = membersOf(body)?.message;
  if (typeof message !== "string") return null;
  return shortened(
    plainLine(secrets.reduce((text, secret) => text.replaceAll(secret, redacted), message)),
    maxCharacters,
  );
}

/** Null: it is no JSON object. */
function membersOf(body: string): JsonObject | null {
  try {
    const answer: unknown = JSON.parse(body);
    return isJsonObject(answer) ? answer : null;
  } catch {
    return null;
  }
}
