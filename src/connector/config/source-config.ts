// The configuration of a source: schemas and types of the request form and of the full form. complete-connector.ts
// fills the defaults.

import { type Static, Type } from "@sinclair/typebox";
import {
  emptyObject,
  nullable,
  oneOf,
  strictObject,
  taggedUnion,
  wholeNumber,
} from "../request/schema-forms.ts";
import { CatalogFullSchema, CatalogRequestSchema } from "./catalog.ts";
import { PostgresConnectionRequestSchema, PostgresConnectionSchema } from "./connection.ts";

/** Kinds whose names are known, but which are not built: a request with one is refused with `unsupported_kind`. */
export const unbuiltSourceKinds = ["sqlserver", "mysql", "mongo", "oracle", "file_source", "db2"] as const;
export const unbuiltReplicationKinds = ["query_based"] as const;

// --- replication type ------------------------------------------------------------------------

const publicationName = nullable(
  Type.String({
    minLength: 1,
    maxLength: 63,
    description: "A publication to read; null: one that the service makes and drops.",
  }),
);
const retryWindow = wholeNumber({
  maximum: 31_536_000,
  description: "How long transient errors are retried, in seconds, before the run fails; 0: 300.",
});
const skipSnapshots = Type.Boolean({ description: "Begin with the changes; copy no rows first." });
const ToastModeSchema = oneOf(["ReplicaIdentityFull", "Placeholder"], {
  description: "Where an unchanged out-of-line value comes from: the old row, or a placeholder.",
});

const ReplicationTypeRequestSchema = taggedUnion({
  logical_replication: Type.Optional(
    strictObject({
      publication_name: Type.Optional(publicationName),
      retry_window_seconds: Type.Optional(retryWindow),
      skip_snapshots: Type.Optional(skipSnapshots),
      toast_mode: Type.Optional(ToastModeSchema),
    }),
  ),
  snapshot: Type.Optional(emptyObject("Copy everything, once or on a schedule.")),
});

const LogicalReplicationSchema = strictObject({
  publication_name: publicationName,
  retry_window_seconds: retryWindow,
  skip_snapshots: skipSnapshots,
  toast_mode: ToastModeSchema,
});

const ReplicationTypeSchema = taggedUnion({
  logical_replication: Type.Optional(LogicalReplicationSchema),
  snapshot: Type.Optional(emptyObject("Copy everything, once or on a schedule.")),
});

// --- keyless tables and system columns -------------------------------------------------------

const KeylessTableStrategySchema = taggedUnion(
  { append_only: Type.Optional(emptyObject()), dedup_by_row_hash: Type.Optional(emptyObject()) },
  { description: "What is done with tables that have no key." },
);

const OpEncodingSchema = oneOf(["None", "Char", "Int", "String"], {
  description:
    "How the column _sm_op tells what was done: c, u, d, r; 1, 2, 3, 0; insert, update, delete, read; None: no column.",
});
const snapshotAsRead = Type.Boolean({ description: "Rows of a copy are reads, not inserts." });
const systemColumns = {
  synced_at: Type.Optional(
    emptyObject("A column _sm_synced_at with the time at which the service read the row."),
  ),
  lsn: Type.Optional(emptyObject("A column _sm_lsn with the place of the row's commit in the source's log.")),
};

const SystemColumnsRequestSchema = strictObject({
  ...systemColumns,
  op: Type.Optional(
    strictObject({
      encoding: Type.Optional(OpEncodingSchema),
      snapshot_as_read: Type.Optional(snapshotAsRead),
    }),
  ),
});

const SystemColumnsSchema = strictObject({
  ...systemColumns,
  op: Type.Optional(strictObject({ encoding: OpEncodingSchema, snapshot_as_read: snapshotAsRead })),
});

// --- source ----------------------------------------------------------------------------------

const parallelSnapshots = Type.Boolean({ description: "Copy large tables in parallel chunks." });
const partitionsAsRoot = Type.Boolean({ description: "Changes of a partition carry the root table's name." });

export const PostgresSourceRequestSchema = strictObject({
  connection: PostgresConnectionRequestSchema,
  replication_type: ReplicationTypeRequestSchema,
  catalog: Type.Optional(CatalogRequestSchema),
  parallel_snapshots_enabled: Type.Optional(parallelSnapshots),
  partitions_as_root: Type.Optional(partitionsAsRoot),
  keyless_table_strategy: Type.Optional(KeylessTableStrategySchema),
  system_columns: Type.Optional(SystemColumnsRequestSchema),
});
export type PostgresSourceRequest = Static<typeof PostgresSourceRequestSchema>;

export const SourceRequestSchema = taggedUnion(
  { postgres: Type.Optional(PostgresSourceRequestSchema) },
  { description: "Where changes come from: one key, which names the kind." },
);
export type SourceRequest = Static<typeof SourceRequestSchema>;

export const PostgresSourceConfigSchema = strictObject({
  connection: PostgresConnectionSchema,
  replication_type: ReplicationTypeSchema,
  catalog: CatalogFullSchema,
  parallel_snapshots_enabled: parallelSnapshots,
  partitions_as_root: partitionsAsRoot,
  keyless_table_strategy: KeylessTableStrategySchema,
  system_columns: SystemColumnsSchema,
});
/** Every default is filled, secrets are present. */
export type PostgresSourceConfig = Static<typeof PostgresSourceConfigSchema>;

export const SourceConfigSchema = taggedUnion(
  { postgres: Type.Optional(PostgresSourceConfigSchema) },
  { description: "Where changes come from: one key, which names the kind." },
);
/** Has exactly one key. */
export type SourceConfig = Static<typeof SourceConfigSchema>;
