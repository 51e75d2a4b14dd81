// Which encoder a connector's format means, and which operations it sends.

import manifest from "../../../package.json" with { type: "json" };
import type { Relation } from "../../change/relation.ts";
import { messageFormat } from "../../connector/config/webhook-format.ts";
import type { ConnectorConfig } from "../../connector/connector.ts";
import { configuredSink } from "../delivery/configured-sink.ts";
import type { OperationFilter } from "../delivery/stream/change-rows.ts";
import type { TransactionCountsOptions } from "../delivery/stream/transaction-counts.ts";
import { DebeziumRowEncoder } from "./debezium/debezium-row.ts";
import { NativeRowEncoder } from "./native-row.ts";
import type { RowEncoder, RowOperation } from "./row-encoder.ts";

export interface MessageEncoding extends OperationFilter {
  compile(relation: Relation): RowEncoder;
  /** Where the beginning and the end of each transaction are sent to; null: they are not, and rows are not counted. */
  readonly transactions: Pick<TransactionCountsOptions, "schema" | "table" | "embedSchema"> | null;
}

export function messageEncoding(connector: ConnectorConfig): MessageEncoding {
  const format = messageFormat(configuredSink(connector).format);
  const toastMode = connector.source.postgres?.replication_type.logical_replication?.toast_mode;
  const placeholder = toastMode === "Placeholder";
  switch (format.kind) {
    case "native":
      return {
        // The native form has no word for a truncate.
        sends: (operation) => operation !== "truncate",
        transactions: null,
        compile: (relation) =>
          new NativeRowEncoder(relation, {
            placeholder,
            schemaPrefix: format.embedSchema ? connector.id : null,
          }),
      };
    case "debezium": {
      const { options, embedSchema } = format;
      const skipped = skippedOperations(options.skipped_operations);
      const row = {
        version: manifest.version,
        name: connector.id,
        database: connector.source.postgres?.connection.database ?? "",
        dataTypes: options.data_types,
        includeBefore: options.include_before,
        embedSchema,
        placeholder,
        now: Date.now,
      };
      return {
        sends: (operation) => !skipped.has(operation),
        transactions: options.emit_tx_metadata
          ? { schema: connector.id, table: options.tx_metadata_topic, embedSchema }
          : null,
        compile: (relation) => new DebeziumRowEncoder(relation, row),
      };
    }
    default:
      return format satisfies never;
  }
}

const operationLetters: ReadonlyMap<string, RowOperation> = new Map([
  ["c", "create"],
  ["u", "update"],
  ["d", "delete"],
  ["r", "read"],
  ["t", "truncate"],
]);

/** Letters with commas between them; `none` skips nothing. */
function skippedOperations(letters: string): ReadonlySet<RowOperation> {
  const named = letters.split(",").map((letter) => operationLetters.get(letter.trim()));
  return new Set(named.filter((operation) => operation !== undefined));
}
