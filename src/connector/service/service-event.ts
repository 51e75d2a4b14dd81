// What happens in the service, as `GET /api/v1/events` tells it: one event for each change that a reader of the other
// endpoints would otherwise have to poll for.

import { type Static, Type } from "@sinclair/typebox";
import { oneOf, strictObject } from "../request/schema-forms.ts";
import { ConnectorStatusSchema } from "../status.ts";
import { TaskSchema } from "../task.ts";

const connectorId = Type.String({ description: "Id of the connector." });

const StatusEventSchema = strictObject(
  { connector_id: connectorId, run_id: Type.String(), status: ConnectorStatusSchema },
  { description: "Phase, health or the tables that are set aside have changed. Mere progress is no event." },
);

const ConnectorEventSchema = strictObject(
  {
    connector_id: connectorId,
    change: oneOf(["created", "changed", "deleted"], {
      description: "`changed`: its configuration is another one.",
    }),
  },
  { description: "A connector is there, is another one, or is gone." },
);

const TaskEventSchema = strictObject(
  { connector_id: connectorId, task: TaskSchema },
  { description: "A task was made, or has changed. Mere progress comes at most every two seconds." },
);

const ReplicaEventSchema = strictObject(
  {
    replica_id: Type.String({ description: "Id of the replica." }),
    change: oneOf(["joined", "changed", "left"], {
      description: "`changed`: it is silent, lives again, or holds another number of connectors.",
    }),
  },
  { description: "Another list of replicas. With embedded state there is one replica, and no such event." },
);

/** What is told, by the name of its event. */
export type ServiceEvent =
  | { readonly event: "status"; readonly data: Static<typeof StatusEventSchema> }
  | { readonly event: "connector"; readonly data: Static<typeof ConnectorEventSchema> }
  | { readonly event: "task"; readonly data: Static<typeof TaskEventSchema> }
  | { readonly event: "replica"; readonly data: Static<typeof ReplicaEventSchema> };

const ResetEventSchema = strictObject(
  {},
  { description: "Events are missing before this one: read again what you show, then go on." },
);

/** By their names in the stream. */
export const eventSchemas = {
  status: StatusEventSchema,
  connector: ConnectorEventSchema,
  task: TaskEventSchema,
  replica: ReplicaEventSchema,
  reset: ResetEventSchema,
} as const;
