// What the service says about itself: its threads, memory and settings, and the replicas of the installation.

import { type Static, Type } from "@sinclair/typebox";
import { nullable, oneOf, strictObject, timestamp } from "../request/schema-forms.ts";

export const SettingReportSchema = strictObject(
  {
    name: Type.String({ description: "The environment variable." }),
    value: nullable(
      Type.String({
        description:
          '`"***"` in the place of a secret, also within an address; null: neither set nor a default.',
      }),
    ),
    source: oneOf(["Flag", "Environment", "Default"], { description: "Where the value comes from." }),
    secret: Type.Boolean({ description: "Whether the value is never shown." }),
  },
  { description: "A setting of the service." },
);
export type SettingReport = Static<typeof SettingReportSchema>;

export const ServiceReportSchema = strictObject({
  version: Type.String(),
  started_at: timestamp(),
  state: strictObject({
    kind: oneOf(["Embedded", "Postgres"], { description: "Where connectors, tasks and history are kept." }),
  }),
  threads: Type.Array(
    strictObject({
      connector_id: nullable(Type.String({ description: "Null: the main thread." })),
      thread: oneOf(["main", "replication", "webhook", "kafka"]),
      loop_delay_ms: Type.Number({
        minimum: 0,
        description: "How late the thread's event loop was at most over five seconds.",
      }),
    }),
  ),
  memory: strictObject({ resident_bytes: Type.Integer({ minimum: 0 }) }),
  settings: Type.Array(SettingReportSchema),
});
export type ServiceReport = Static<typeof ServiceReportSchema>;

export const ReplicaSchema = strictObject(
  {
    id: Type.String({ description: "`MILLRACE_REPLICA_ID`, or the host's name and a random part." }),
    host: Type.String(),
    version: Type.String(),
    started_at: timestamp(),
    seen_at: timestamp("When it was last known to live."),
    alive: Type.Boolean({
      description:
        "Whether it has given a sign of life within its lease. Others take over what one held that has not. It is listed for a while.",
    }),
    weight: Type.Integer({
      minimum: 0,
      maximum: 100,
      description:
        "`MILLRACE_REPLICA_WEIGHT`: its share of the connectors, beside the weights of the others. 0: it answers the API, and holds none.",
    }),
    connectors: Type.Integer({
      minimum: 0,
      description: "Connectors that it holds: neither stopped nor disabled.",
    }),
  },
  { description: "A process of the service." },
);

export type Replica = Static<typeof ReplicaSchema>;

export const ReplicaListSchema = strictObject({
  replicas: Type.Array(ReplicaSchema),
  // It is always given. As a required member it would be an argument of a constructor that a generator for Go writes,
  // where the name is taken.
  this: Type.Optional(Type.String({ description: "Id of the replica that answers." })),
});
export type ReplicaList = Static<typeof ReplicaListSchema>;
