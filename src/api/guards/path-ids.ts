// Ids in paths and queries. Ids that no connector or task can have are refused here, so that the services get
// well-formed ids only.

import { Type } from "@sinclair/typebox";
import { isConnectorId } from "../../connector/connector-id.ts";
import { strictObject } from "../../connector/request/schema-forms.ts";
import { invalidRequest } from "../../errors/invalid-input.ts";
import { MillraceError } from "../../errors/millrace-error.ts";

export const ConnectorPath = strictObject({
  connector_id: Type.String({ description: "Id of the connector: 1 to 30 of A-Z, a-z, 0-9, _ and -." }),
});

export const TaskPath = strictObject({
  connector_id: Type.String({ description: "Id of the connector." }),
  task_id: Type.String({ description: "Id of the task." }),
});

export const ParkedPath = strictObject({
  connector_id: Type.String({ description: "Id of the connector." }),
  parked_id: Type.String({ description: "Id of the message: its `Idempotency-Key`." }),
});

/** The id of a connector that should exist. Throws `connector_not_found` if none can have it. */
export function knownConnectorId(id: string): string {
  if (!isConnectorId(id)) throw new MillraceError("connector_not_found", "There is no connector of this id.");
  return id;
}

export function knownTaskId(id: string): string {
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(id)) {
    throw new MillraceError("task_not_found", "There is no task of this id.");
  }
  return id;
}

/** Throws `parked_not_found` if no message can have it. */
export function knownParkedId(id: string): string {
  if (/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(id)) return id;
  throw new MillraceError("parked_not_found", "No message of this id is parked.");
}

/** An id that the client chooses. Throws `invalid_request` with the rule. */
export function chosenConnectorId(id: string): string {
  if (isConnectorId(id)) return id;
  throw invalidRequest([{ path: "/connector_id", message: "expected 1 to 30 of A-Z, a-z, 0-9, _ and -" }]);
}

/** The connector that missing secrets come from; null: the query names none. */
export function optionalConnectorId(id: string | undefined): string | null {
  return id === undefined ? null : knownConnectorId(id);
}
