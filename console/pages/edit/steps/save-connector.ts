// Creates or changes the connector. Throws `ApiProblem`, with violations at places of the configuration.

import type { ConnectorRequest } from "../../../../src/connector/connector.ts";
import type { JsonObject } from "../../../../src/connector/request/merge-patch.ts";
import { type Api, answer } from "../../../api/client.ts";
import { ApiProblem } from "../../../api/problem.ts";
import type { Form } from "../form/form-context.ts";
import { isSame, mergePatchOf } from "../model/patch.ts";

/** What is stored now, if somebody else has changed it since the form was opened; otherwise null. */
export async function changedMeanwhile(
  api: Api,
  { isNew, secretsOf, stored }: Form,
): Promise<JsonObject | null> {
  if (isNew || secretsOf === null) return null;
  const { connector } = await answer(api.connectors({ connector_id: secretsOf }).get());
  const now = connector as unknown as JsonObject;
  return isSame(now, stored ?? {}) ? null : now;
}

/** Returns its id. */
export async function saveConnector(api: Api, form: Form): Promise<string> {
  if (form.isNew) return create(api, form);
  const id = form.secretsOf ?? "";
  await answer(api.connectors({ connector_id: id }).patch(mergePatchOf(form.stored ?? {}, form.draft)));
  return id;
}

async function create(api: Api, { draft, secretsOf }: Form): Promise<string> {
  const id = String(draft.id ?? "");
  if (id === "") throw atId(422, "required");
  const connector = api.connectors({ connector_id: encodeURIComponent(id) });
  // The same request replaces a connector that is there.
  if (await isThere(() => answer(connector.get()))) throw atId(409, takenText);
  const query = secretsOf === null ? {} : { clone_from: secretsOf };
  try {
    await answer(connector.post(draft as unknown as ConnectorRequest, { query }));
  } catch (error) {
    throw error instanceof ApiProblem ? withIdAtItsField(error) : error;
  }
  return id;
}

export const takenText = "Another connector has this id: choose another one, or edit that one.";

async function isThere(get: () => Promise<unknown>): Promise<boolean> {
  try {
    await get();
    return true;
  } catch (error) {
    // What else may be wrong with the id, the request itself is told.
    if (error instanceof ApiProblem && error.status !== 0) return false;
    throw error;
  }
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
