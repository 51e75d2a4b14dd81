// Which encoder a format means, and which operations it sends.

import manifest from "../../../package.json" with { type: "json" };
import type { Relation } from "../../change/relation.ts";
import type { MessageFormat } from "../../connector/config/message-format.ts";
import { DebeziumRowEncoder } from "./debezium/debezium-row.ts";
import { NativeRowEncoder } from "./native-row.ts";
import { operationOfLetter } from "./operation-letters.ts";
import type { RowEncoder, RowOperation } from "./row-encoder.ts";

/**
 * What a format sends of the operations: native has no word for a truncate, Debezium's user may skip some.
 */
export interface OperationFilter {
  sends(operation: RowOperation): boolean;
}

/**
 * Whether every state of a row is sent that there is of it while others read it: a copy beside the stream leaves out the rows that the stream touches
 * meanwhile.
 */
export function sendsAllRows(filter: OperationFilter): boolean {
  return filter.sends("read") && filter.sends("create") && filter.sends("update");
}

export interface MessageEncoding extends OperationFilter {
  compile(relation: Relation): RowEncoder;
  /** Where the beginning and the end of each transaction are sent to; null: they are not, and rows are not counted. */
  readonly transactions: TransactionTopic | null;
}

export interface TransactionTopic {
  /** What stands in the place of schema and table. */
  readonly schema: string;
  readonly table: string;
  readonly embedSchema: boolean;
}

/** What messages tell of the connector. */
export interface EncodedConnector {
  readonly id: string;
  /** At the source. */
  readonly database: string;
  /** A value that the source did not send has a placeholder. */
  readonly hasPlaceholders: boolean;
}

export function messageEncoding(format: MessageFormat, connector: EncodedConnector): MessageEncoding {
  const placeholder = connector.hasPlaceholders;
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
        database: connector.database,
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

/** Letters with commas between them; `none` skips nothing. */
function skippedOperations(letters: string): ReadonlySet<RowOperation> {
  const named = letters.split(",").map((letter) => operationOfLetter(letter.trim()));
  return new Set(named.filter((operation) => operation !== undefined));
}
