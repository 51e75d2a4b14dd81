// Parts of a connector that have a name in the OpenAPI document, so that a client's types have short names, and one that
// stands in several places is one type. Other parts are named by schema-names.ts, after where they stand.

import { CatalogFullSchema, CatalogRequestSchema } from "../../connector/config/catalog.ts";
import {
  PostgresConnectionRequestSchema,
  PostgresConnectionSchema,
} from "../../connector/config/connection.ts";
import { KafkaSinkConfigSchema, KafkaSinkRequestSchema } from "../../connector/config/kafka-config.ts";
import {
  PostgresSourceConfigSchema,
  PostgresSourceRequestSchema,
} from "../../connector/config/source-config.ts";
import { WebhookSinkConfigSchema, WebhookSinkRequestSchema } from "../../connector/config/webhook-config.ts";
import { ConnectorConfigSchema, ConnectorRequestSchema } from "../../connector/connector.ts";
import { ReplayResultSchema } from "../../connector/replay.ts";
import {
  HealthSchema,
  RunProgressSchema,
  RunStateSchema,
  SetAsideTableSchema,
} from "../../connector/status.ts";
import { TableCopySchema } from "../../connector/table-status.ts";
import { TaskSpecSchema } from "../../connector/task.ts";
import { TestStatusSchema, TestTypeSchema } from "../../connector/validation.ts";
import { VerifiedSchema, VerifyResultSchema } from "../../connector/verification.ts";

const connectionRequest = PostgresConnectionRequestSchema.properties;
const connection = PostgresConnectionSchema.properties;
const sourceRequest = PostgresSourceRequestSchema.properties;
const source = PostgresSourceConfigSchema.properties;
const schemaRequest = CatalogRequestSchema.properties.schemas.items;
const tableRequest = schemaRequest.properties.tables.items;
const schema = CatalogFullSchema.properties.schemas.items;
const table = schema.properties.tables.items;
const webhookRequest = WebhookSinkRequestSchema.properties;
const webhook = WebhookSinkConfigSchema.properties;
const formatRequest = webhookRequest.format.properties;
const format = webhook.format.properties;
const formatConfigRequest = formatRequest.native.properties.format_config;
const formatConfig = format.native.properties.format_config;
const kafkaRequest = KafkaSinkRequestSchema.properties;
const kafka = KafkaSinkConfigSchema.properties;
const kafkaFormatRequest = kafkaRequest.format.properties;
const kafkaFormat = kafka.format.properties;
const kafkaFormatConfigRequest = kafkaFormatRequest.native.properties.format_config;
const kafkaFormatConfig = kafkaFormat.native.properties.format_config;
const kafkaSerdeRequest = kafkaFormatConfigRequest.properties.value_serde;
const kafkaSerde = kafkaFormatConfig.properties.value_serde;
const connectorRequest = ConnectorRequestSchema.properties;
const connector = ConnectorConfigSchema.properties;

/** By their names in the OpenAPI document. */
export const namedParts = {
  TunnelRequest: connectionRequest.tunnel,
  Tunnel: connection.tunnel,
  CatalogSchemaRequest: schemaRequest,
  CatalogSchema: schema,
  CatalogTableRequest: tableRequest,
  CatalogTable: table,
  CatalogColumnRequest: tableRequest.properties.columns.items,
  CatalogColumn: table.properties.columns.items,
  ReplicationTypeRequest: sourceRequest.replication_type,
  ReplicationType: source.replication_type,
  KeylessTableStrategy: source.keyless_table_strategy,
  SystemColumnsRequest: sourceRequest.system_columns,
  SystemColumns: source.system_columns,
  WebhookFormatRequest: webhookRequest.format,
  WebhookFormat: webhook.format,
  NativeFormatRequest: formatRequest.native,
  NativeFormat: format.native,
  DebeziumFormatRequest: formatRequest.debezium,
  DebeziumFormat: format.debezium,
  FormatConfigRequest: formatConfigRequest,
  FormatConfig: formatConfig,
  SerdeRequest: formatConfigRequest.properties.value_serde,
  Serde: formatConfig.properties.value_serde,
  WebhookAuthRequest: webhookRequest.auth.anyOf[0],
  WebhookAuth: webhook.auth.anyOf[0],
  KafkaConnectionRequest: kafkaRequest.connection,
  KafkaConnection: kafka.connection,
  KafkaPropertyRequest: kafkaRequest.connection.properties.config.properties.global_properties.items,
  KafkaProperty: kafka.connection.properties.config.properties.global_properties.items,
  KafkaTopicSetting: kafka.topic_options.properties.config.items,
  KafkaFormatRequest: kafkaRequest.format,
  KafkaFormat: kafka.format,
  KafkaNativeFormatRequest: kafkaFormatRequest.native,
  KafkaNativeFormat: kafkaFormat.native,
  KafkaDebeziumFormatRequest: kafkaFormatRequest.debezium,
  KafkaDebeziumFormat: kafkaFormat.debezium,
  KafkaFormatConfigRequest: kafkaFormatConfigRequest,
  KafkaFormatConfig: kafkaFormatConfig,
  KafkaSerdeRequest: kafkaSerdeRequest,
  KafkaSerde: kafkaSerde,
  SchemaRegistryRequest: kafkaSerdeRequest.properties.avro.properties.schema_registry,
  SchemaRegistry: kafkaSerde.properties.avro.properties.schema_registry,
  LimitsRequest: connectorRequest.limits.anyOf[0],
  Limits: connector.limits,
  Schedule: connector.schedule.anyOf[0],
  IdentifierNamingRequest: connectorRequest.identifier_naming.anyOf[0],
  IdentifierNaming: connector.identifier_naming,
  State: RunStateSchema,
  Health: HealthSchema,
  RunProgress: RunProgressSchema,
  SetAsideTable: SetAsideTableSchema,
  TableCopy: TableCopySchema,
  TaskSpec: TaskSpecSchema,
  VerifyResult: VerifyResultSchema,
  ReplayResult: ReplayResultSchema,
  Verified: VerifiedSchema,
  TestType: TestTypeSchema,
  TestStatus: TestStatusSchema,
};
