// Creates or changes the connector. Throws `ApiProblem`, with violations at places of the configuration.

import type { ConnectorRequest } from "../../../../src/connector/connector.ts";
import type { JsonObject } from "../../../../src/connector/request/merge-patch.ts";
import { type Api, answer, taggedAnswer } from "../../../api/client.ts";
import { ApiProblem } from "../../../api/problem.ts";
import type { Form } from "../form/form-context.ts";
import { mergePatchOf } from "../model/patch.ts";

/** Somebody else has changed the connector since the form was opened: nothing is saved. */
export interface Conflict {
  readonly now: JsonObject;
  readonly tag: string | null;
}

/** Returns the id under which it is saved. */
export async function saveConnector(api: Api, form: Form): Promise<string | Conflict> {
  if (form.isNew) return create(api, form);
  const id = form.secretsOf ?? "";
  const connector = api.connectors({ connector_id: encodeURIComponent(id) });
  try {
    const options = { headers: conditionOf(form) };
    await answer(connector.patch(mergePatchOf(form.stored ?? {}, form.draft), options));
    return id;
  } catch (error) {
    if (!isPreconditionFailed(error)) throw error;
    const { data, tag } = await taggedAnswer(connector.get());
    return { now: data.connector as unknown as JsonObject, tag };
  }
}

async function create(api: Api, form: Form): Promise<string> {
  const { draft, secretsOf } = form;
  const id = String(draft.id ?? "");
  if (id === "") throw atId(422, "required");
  const query = secretsOf === null ? {} : { clone_from: secretsOf };
  const connector = api.connectors({ connector_id: encodeURIComponent(id) });
  try {
    const options = { query, headers: conditionOf(form) };
    await answer(connector.post(draft as unknown as ConnectorRequest, options));
  } catch (error) {
    if (isPreconditionFailed(error)) throw atId(412, takenText);
    throw error instanceof ApiProblem ? withIdAtItsField(error) : error;
  }
  return id;
}

/** Without it a creation replaces a connector that is there, and a change what somebody else has changed meanwhile. */
export function conditionOf({ isNew, tag }: Form): Readonly<Record<string, string>> {
  if (isNew) return { "if-none-match": "*" };
  return tag === null ? {} : { "if-match": tag };
}

export const takenText = "Another connector has this id: choose another one, or edit that one.";

function isPreconditionFailed(error: unknown): boolean {
  return error instanceof ApiProblem && error.code === "precondition_failed";
}

function atId(status: number, message: string): ApiProblem {
  return new ApiProblem(status, "", message, [{ path: "/id", message }]);
}

/** The address has the id; the form has it at `/id`. */
function withIdAtItsField({ status, code, message, fields }: ApiProblem): ApiProblem {
  if (code === "conflict" && fields.length === 0) return atId(status, message);
  const placed = fields.map((field) => (field.path === "/connector_id" ? { ...field, path: "/id" } : field));
  return new ApiProblem(status, code, message, placed);
}
