// Which encoder a connector's format means, and which operations it sends.

import type { Relation } from "../../change/relation.ts";
import type { ConnectorConfig } from "../../connector/connector.ts";
import { messageFormat } from "../../connector/webhook-format.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import type { OperationFilter } from "./change-rows.ts";
import { NativeRowEncoder } from "./native-row.ts";
import type { RowEncoder } from "./row-encoder.ts";

export interface MessageEncoding extends OperationFilter {
  compile(relation: Relation): RowEncoder;
}

export function messageEncoding(connector: ConnectorConfig): MessageEncoding {
  const config = connector.sink.webhook;
  if (!config) throw new MillraceError("internal", "the connector's sink is not a webhook");
  const format = messageFormat(config.format);
  const toastMode = connector.source.postgres?.replication_type.logical_replication?.toast_mode;
  const placeholder = toastMode === "Placeholder";
  switch (format.kind) {
    case "native":
      return {
        // The native form has no word for a truncate.
        sends: (operation) => operation !== "truncate",
        compile: (relation) => new NativeRowEncoder(relation, { placeholder }),
      };
    case "debezium":
      throw new MillraceError("unsupported_kind", "the debezium format is not built");
    default:
      return format satisfies never;
  }
}
