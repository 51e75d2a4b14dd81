// The schemas that have a name in the OpenAPI document, and the ones that several requests share.

import { Type } from "@sinclair/typebox";
import { CatalogFullSchema, CatalogRequestSchema } from "../../connector/config/catalog.ts";
import {
  PostgresConnectionRequestSchema,
  PostgresConnectionSchema,
} from "../../connector/config/connection.ts";
import { KafkaSinkConfigSchema, KafkaSinkRequestSchema } from "../../connector/config/kafka-config.ts";
import {
  PostgresSinkConfigSchema,
  PostgresSinkRequestSchema,
  SinkConfigSchema,
  SinkRequestSchema,
} from "../../connector/config/sink-config.ts";
import {
  PostgresSourceConfigSchema,
  PostgresSourceRequestSchema,
  SourceConfigSchema,
  SourceRequestSchema,
} from "../../connector/config/source-config.ts";
import { WebhookSinkConfigSchema, WebhookSinkRequestSchema } from "../../connector/config/webhook-config.ts";
import {
  CommandSchema,
  ConnectorConfigSchema,
  ConnectorRequestSchema,
  ConnectorWithStatusSchema,
  GivenConnectorSchema,
} from "../../connector/connector.ts";
import { ExplanationSchema } from "../../connector/explanation.ts";
import {
  ParkedCountSchema,
  ParkedListSchema,
  ParkedSchema,
  ParkedSelectionSchema,
} from "../../connector/parked-message.ts";
import { BufferBodySchema, SinkBodySchema, SourceBodySchema } from "../../connector/request/check-request.ts";
import { oneOf, strictObject } from "../../connector/request/schema-forms.ts";
import { DiagnosisSchema } from "../../connector/service/diagnosis.ts";
import { ConnectorSamplesSchema, SampleListSchema } from "../../connector/service/samples.ts";
import { eventSchemas } from "../../connector/service/service-event.ts";
import {
  ReplicaListSchema,
  ReplicaSchema,
  ServiceReportSchema,
  SettingReportSchema,
} from "../../connector/service/service-report.ts";
import { SessionSchema } from "../../connector/service/session.ts";
import { ConnectorStatusSchema, HistoryEntrySchema, StatusSchema } from "../../connector/status.ts";
import { TableStatusesSchema, TableStatusSchema } from "../../connector/table-status.ts";
import { TaskRequestSchema, TaskSchema } from "../../connector/task.ts";
import { ValidateEventSchema, ValidateTestSchema } from "../../connector/validation.ts";
import { ProblemSchema } from "../problem.ts";
import { namedParts } from "./named-parts.ts";

/** By their names in the OpenAPI document. */
export const schemas = {
  // Parts of other schemas, named so that generated clients have a type for each.
  ...namedParts,
  PostgresConnectionRequest: PostgresConnectionRequestSchema,
  PostgresConnection: PostgresConnectionSchema,
  CatalogRequest: CatalogRequestSchema,
  PostgresSourceRequest: PostgresSourceRequestSchema,
  PostgresSource: PostgresSourceConfigSchema,
  SourceRequest: SourceRequestSchema,
  Source: SourceConfigSchema,
  PostgresSinkRequest: PostgresSinkRequestSchema,
  PostgresSink: PostgresSinkConfigSchema,
  WebhookSinkRequest: WebhookSinkRequestSchema,
  WebhookSink: WebhookSinkConfigSchema,
  KafkaSinkRequest: KafkaSinkRequestSchema,
  KafkaSink: KafkaSinkConfigSchema,
  SinkRequest: SinkRequestSchema,
  Sink: SinkConfigSchema,
  Status: StatusSchema,
  ConnectorStatus: ConnectorStatusSchema,
  HistoryEntry: HistoryEntrySchema,
  TableStatus: TableStatusSchema,
  Diagnosis: DiagnosisSchema,
  ValidateTest: ValidateTestSchema,
  ValidateEvent: ValidateEventSchema,
  ConnectorSamples: ConnectorSamplesSchema,
  SettingReport: SettingReportSchema,
  Replica: ReplicaSchema,
  // Data of events, which the document names beside the stream.
  StatusEvent: eventSchemas.status,
  ConnectorEvent: eventSchemas.connector,
  TaskEvent: eventSchemas.task,
  ReplicaEvent: eventSchemas.replica,
  ResetEvent: eventSchemas.reset,

  // Bodies of requests and responses.
  BufferBody: BufferBodySchema,
  Catalog: CatalogFullSchema,
  Explanation: ExplanationSchema,
  Diagnoses: Type.Array(DiagnosisSchema),
  CommandRequest: strictObject({ command: CommandSchema }),
  Connector: ConnectorConfigSchema,
  ConnectorList: strictObject({ connectors: Type.Array(GivenConnectorSchema) }),
  ConnectorPatch: Type.Object({}, { additionalProperties: true, description: "A merge patch (RFC 7396)." }),
  ConnectorRequest: ConnectorRequestSchema,
  ConnectorWithStatus: ConnectorWithStatusSchema,
  GivenConnector: GivenConnectorSchema,
  History: Type.Array(HistoryEntrySchema),
  Parked: ParkedSchema,
  ParkedCount: ParkedCountSchema,
  ParkedList: ParkedListSchema,
  ParkedSelection: ParkedSelectionSchema,
  Problem: ProblemSchema,
  ReplicaList: ReplicaListSchema,
  SampleList: SampleListSchema,
  ServiceReport: ServiceReportSchema,
  ServiceAbout: strictObject({
    name: oneOf(["millrace"]),
    version: Type.String(),
    links: strictObject({
      api: Type.String(),
      documentation: Type.String({ description: "For a browser." }),
      openapi: Type.String(),
      health: Type.String(),
      readiness: Type.String(),
      metrics: Type.String(),
    }),
  }),
  ServiceHealth: strictObject({ status: oneOf(["ok"]) }),
  Session: SessionSchema,
  SinkBody: SinkBodySchema,
  SnapshotActivity: strictObject({
    active: Type.Boolean({ description: "Whether any table is being copied." }),
    count: Type.Integer({ minimum: 0, description: "Tables being copied." }),
    throttled: Type.Boolean({
      description:
        "Whether tables wait for their turn, as no more of their connector are copied side by side.",
    }),
  }),
  SourceBody: SourceBodySchema,
  SshKeyPair: strictObject({
    private_key: Type.String({ description: "OpenSSH private key (PEM text). Not stored: keep it." }),
    public_key: Type.String({ description: "One line for `authorized_keys`." }),
  }),
  TableStatuses: TableStatusesSchema,
  Task: TaskSchema,
  TaskList: Type.Array(TaskSchema),
  TaskRequest: TaskRequestSchema,
  ValidateEvents: Type.Array(ValidateEventSchema),
};

/** Problems that a route may return, besides those that every route has. */
export function problems<const S extends number>(...statuses: readonly S[]): Record<S, typeof ProblemSchema> {
  return Object.fromEntries(statuses.map((status) => [status, ProblemSchema])) as Record<
    S,
    typeof ProblemSchema
  >;
}

/** A success without a body. */
export const EmptyBody = Type.Undefined({ description: "No content." });

/** For endpoints without query parameters: a misspelt parameter is refused, not ignored. */
export const NoQuery = strictObject({});

export const ConnectorIdQuery = strictObject({
  connector_id: Type.Optional(
    Type.String({ minLength: 1, description: "Secrets that the body leaves out come from this connector." }),
  ),
});

export const WhichConnectorQuery = strictObject({
  connector_id: Type.Optional(Type.String({ minLength: 1, description: "This one alone." })),
});

export const SamplesQuery = strictObject({
  connector_id: Type.Optional(Type.String({ minLength: 1, description: "This one alone." })),
  since: Type.Optional(
    Type.String({
      pattern: "^\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}:\\d{2}(?:\\.\\d{1,9})?Z$",
      description: "Only steps that ended later: RFC 3339, UTC.",
    }),
  ),
});
