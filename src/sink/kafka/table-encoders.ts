// How rows of a table and their keys are written: as JSON, or as Avro with schemas that a registry has.

import type { Relation } from "../../change/relation.ts";
import type { AddressResolver } from "../../connection/egress.ts";
import { type AvroEncoding, avroEncoding } from "../format/avro/avro-encoding.ts";
import { avroFormat } from "../format/avro/avro-format.ts";
import { JsonKeyEncoder, type KeyEncoder } from "../format/key-encoder.ts";
import type { RowEncoder } from "../format/row-encoder.ts";
import {
  avroBoundaryKey,
  avroBoundaryValue,
  type BoundaryEncoder,
  boundaryKeySchema,
  boundaryValueSchema,
  jsonBoundaryKey,
  jsonBoundaryValue,
} from "./boundary-encoder.ts";
import type { KafkaSettings } from "./kafka-settings.ts";
import { NulledColumns } from "./nulled-columns.ts";
import { type AvroSerde, SchemaRegistry } from "./registry/schema-registry.ts";

export interface TableEncoders {
  readonly value: RowEncoder;
  /** Null: rows of the table have no key. */
  readonly key: KeyEncoder | null;
}

export class TableEncoding {
  readonly #nulled: NulledColumns;
  readonly #registries = new Map<AvroSerde, SchemaRegistry>();

  constructor(
    private readonly settings: KafkaSettings,
    /** Of the hosts of registries. */
    private readonly resolver: AddressResolver,
    warn: (reason: string) => void,
  ) {
    this.#nulled = new NulledColumns(warn);
  }

  /** Throws what the registry says. */
  async encoders(relation: Relation, topic: string, signal: AbortSignal): Promise<TableEncoders> {
    const { messages, encoding, connectorId: id, database } = this.settings;
    const { value, key, format } = messages;
    const isAvro = value.kind === "avro" || key.kind === "avro";
    const nulled = (column: number) => this.#nulled.add(relation, column);
    const avro = isAvro ? avroEncoding(relation, avroFormat(format, { id, database }), nulled) : null;
    const valueEncoder =
      value.kind === "avro" && avro
        ? avro.encoder(await this.#registry(value).idOf(topic, "value", avro.value, signal))
        : encoding.compile(relation);
    if (relation.key.length === 0) return { value: valueEncoder, key: null };
    const keyEncoder =
      key.kind === "avro" && avro
        ? await this.#avroKey(key, avro, topic, signal)
        : this.#jsonKey(relation, key.kind === "json" && key.embedSchema);
    return { value: valueEncoder, key: keyEncoder };
  }

  /** Of the topic that says where transactions begin and end. Throws what the registry says. */
  async boundaries(topic: string, signal: AbortSignal): Promise<BoundaryEncoder> {
    const { value, key } = this.settings.messages;
    return {
      writeValue:
        value.kind === "avro"
          ? avroBoundaryValue(await this.#registry(value).idOf(topic, "value", boundaryValueSchema, signal))
          : jsonBoundaryValue,
      writeKey:
        key.kind === "avro"
          ? avroBoundaryKey(await this.#registry(key).idOf(topic, "key", boundaryKeySchema, signal))
          : jsonBoundaryKey(key.embedSchema),
    };
  }

  async #avroKey(serde: AvroSerde, avro: AvroEncoding, topic: string, signal: AbortSignal) {
    if (!avro.key) return null;
    return avro.keyEncoder(await this.#registry(serde).idOf(topic, "key", avro.key, signal));
  }

  #jsonKey(relation: Relation, embedSchema: boolean): KeyEncoder {
    const { messages, connectorId } = this.settings;
    const { format } = messages;
    return new JsonKeyEncoder(relation, {
      embedSchema,
      schemaPrefix: connectorId,
      ...(format.kind === "debezium" ? { dataTypes: format.options.data_types } : {}),
    });
  }

  #registry(serde: AvroSerde): SchemaRegistry {
    return this.#registries.getOrInsertComputed(serde, () => new SchemaRegistry(serde, this.resolver));
  }
}
