// What a patch of a Kafka sink starts from, where settings that were not given decide what a partial object means. Pure.

import type { KafkaSinkRequest } from "../kafka-config.ts";
import { presetDefaults } from "./producer-settings.ts";

type Config = NonNullable<KafkaSinkRequest["connection"]["config"]>;

/** A part of a patch: anything, also null. */
export interface ConfigPatch {
  readonly producer_preset?: unknown;
  readonly transactions?: unknown;
}

/**
 * The sink that a patch is merged into.
 *
 * Without `transactions` they are on, and inside of it they are off by default: a patch that sets a timeout alone would
 * turn them off. And what the preset decided is in the given form as if it had been given: with another preset it would
 * stay.
 */
export function withImpliedSettings(sink: KafkaSinkRequest, patch: ConfigPatch): KafkaSinkRequest {
  const { config = {} } = sink.connection;
  const preset = "producer_preset" in patch ? withoutPresetDefaults(config) : config;
  const isPartial = typeof patch.transactions === "object" && patch.transactions !== null;
  const changed =
    isPartial && config.transactions === undefined ? { ...preset, transactions: { enabled: true } } : preset;
  return { ...sink, connection: { ...sink.connection, config: changed } };
}

function withoutPresetDefaults(config: Config): Config {
  const { linger_ms, compression_type, ...others } = config;
  const standard = presetDefaults(config.producer_preset);
  return {
    ...others,
    ...(linger_ms !== undefined && linger_ms !== standard.linger_ms && { linger_ms }),
    ...(compression_type !== undefined &&
      compression_type !== standard.compression_type && { compression_type }),
  };
}
