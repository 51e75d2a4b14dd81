// Checks the certificates and keys of a Kafka sink: those of brokers, and those of schema registries. Pure.

import type { Violation } from "../../../errors/millrace-error.ts";
import type { KafkaSinkRequest } from "../kafka-config.ts";
import { pemProblems } from "../tls-material.ts";
import { completeKafka } from "./kafka-defaults.ts";
import type { KafkaFormat, SchemaRegistry } from "./kafka-format.ts";
import { withProperties } from "./librdkafka-properties.ts";

const kafkaPath = "/sink/kafka";
const authPath = `${kafkaPath}/connection/auth`;
const names = {
  root: "ssl_ca",
  cert: "ssl_certificate",
  key: "ssl_key",
};

/** What is wrong, without quoting it. To be called after secrets are filled. */
export function materialViolations(request: KafkaSinkRequest): Violation[] {
  const sink = withProperties(completeKafka(request));
  return [...brokerMaterial(sink.connection.auth), ...registryMaterial(sink.format)];
}

function brokerMaterial(auth: ReturnType<typeof completeKafka>["connection"]["auth"]): Violation[] {
  const { ssl_certificate_location: certFile, ssl_key_location: keyFile } = auth;
  const hasCert = Boolean(auth.ssl_certificate ?? certFile);
  const hasKey = Boolean(auth.ssl_key ?? keyFile);
  const alone: Violation[] = [];
  // Where both are texts, or one is and there is no other, pemProblems finds it.
  if (certFile !== undefined && !hasKey)
    alone.push({
      path: `${authPath}/ssl_key_location`,
      message: "required with ssl_certificate_location, or ssl_key",
    });
  if (keyFile !== undefined && !hasCert)
    alone.push({
      path: `${authPath}/ssl_certificate_location`,
      message: "required with ssl_key_location, or ssl_certificate",
    });
  if (auth.ssl_key_password !== undefined && !hasKey)
    alone.push({ path: `${authPath}/ssl_key_password`, message: "belongs to a key, and there is none" });
  const inFiles: ("cert" | "key")[] = [];
  if (certFile !== undefined) inFiles.push("cert");
  if (keyFile !== undefined) inFiles.push("key");
  const texts = {
    root: auth.ssl_ca ?? null,
    cert: auth.ssl_certificate ?? null,
    key: auth.ssl_key ?? null,
    passphrase: auth.ssl_key_password ?? null,
    names: { ...names, passphrase: "ssl_key_password" },
    inFiles,
  };
  return [...alone, ...pemProblems(texts, authPath)];
}

function registryMaterial(format: KafkaFormat): Violation[] {
  const [[kind, settings] = ["native", {}]] = Object.entries(format);
  const path = `${kafkaPath}/format/${kind}/format_config`;
  return (["value_serde", "key_serde"] as const).flatMap((serde) => {
    const registry = settings?.format_config?.[serde]?.avro?.schema_registry;
    return registry ? pemProblems(registryTexts(registry), `${path}/${serde}/avro/schema_registry`) : [];
  });
}

function registryTexts({ ssl_ca: root, ssl_certificate: cert, ssl_key: key }: SchemaRegistry) {
  return { root: root ?? null, cert: cert ?? null, key: key ?? null, names };
}
