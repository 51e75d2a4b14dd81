// A connector's format as what Avro needs of it.

import manifest from "../../../../package.json" with { type: "json" };
import type { MessageFormat } from "../../../connector/config/message-format.ts";
import type { EncodedConnector } from "../message-encoding.ts";
import type { AvroFormat } from "./avro-encoding.ts";

/** What the JSON form tells of rows is told here too; `embedSchema` and `hasPlaceholders` have no meaning in Avro. */
export function avroFormat(
  format: MessageFormat,
  connector: Pick<EncodedConnector, "id" | "database">,
): AvroFormat {
  switch (format.kind) {
    case "native":
      return { kind: "native", schemaPrefix: connector.id };
    case "debezium":
      return {
        kind: "debezium",
        options: {
          version: manifest.version,
          name: connector.id,
          database: connector.database,
          dataTypes: format.options.data_types,
          includeBefore: format.options.include_before,
          now: Date.now,
        },
      };
    default:
      return format satisfies never;
  }
}
