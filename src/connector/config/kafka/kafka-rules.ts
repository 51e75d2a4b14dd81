// The rules between fields of a Kafka sink that need no secrets. kafka-material.ts has those of certificates and keys. Pure.

import { isIPv6 } from "node:net";
import type { Violation } from "../../../errors/millrace-error.ts";
import type { KafkaAuthRequest, KafkaConnectionRequest, KafkaSinkRequest } from "../kafka-config.ts";
import { headerViolations } from "./debezium-headers.ts";
import { completeKafka } from "./kafka-defaults.ts";
import type { KafkaFormatConfigRequest } from "./kafka-format.ts";
import {
  effectiveConnection,
  hasProperty,
  propertyViolations,
  settingPath,
} from "./librdkafka-properties.ts";

const kafkaPath = "/sink/kafka";
const authPath = `${kafkaPath}/connection/auth`;

/** `within`: it can be checked only if nothing under these paths breaks the schema. */
interface KafkaRule {
  readonly within: readonly string[];
  readonly check: (sink: KafkaSinkRequest) => readonly Violation[];
}

export const kafkaRules: readonly KafkaRule[] = [
  {
    within: [`${kafkaPath}/connection/brokers`],
    check: ({ connection }) => brokerViolations(connection.brokers),
  },
  {
    within: [authPath, `${kafkaPath}/connection/config`],
    check: ({ connection }) => authViolations(connection),
  },
  { within: [`${kafkaPath}/connection/config`], check: producerViolations },
  { within: [`${kafkaPath}/format`], check: formatViolations },
  { within: [`${kafkaPath}/topic_options/config`], check: topicViolations },
];

// --- brokers ---------------------------------------------------------------------------------

function brokerViolations(brokers: readonly string[]): Violation[] {
  const addresses = brokers.map((broker) => broker.toLowerCase());
  return addresses.flatMap((broker, index): Violation[] => {
    const path = `${kafkaPath}/connection/brokers/${index}`;
    const [, ipv6] = /^\[(.*)\]:\d+$/.exec(broker) ?? [];
    if (ipv6 !== undefined && !isIPv6(ipv6))
      return [{ path, message: "expected an IPv6 address in brackets" }];
    return addresses.indexOf(broker) < index ? [{ path, message: "listed more than once" }] : [];
  });
}

// --- auth ------------------------------------------------------------------------------------

export const usesTls = ({ protocol }: { protocol?: unknown }) => protocol === "Ssl" || protocol === "SaslSsl";
export const usesSasl = ({ protocol }: { protocol?: unknown }) =>
  protocol === "SaslPlaintext" || protocol === "SaslSsl";

const alternatives = [
  ["ssl_ca", "ssl_ca_location"],
  ["ssl_certificate", "ssl_certificate_location"],
  ["ssl_key", "ssl_key_location"],
] as const;
const tlsFields = [...alternatives.flat(), "ssl_key_password"] as const;
const saslFields = ["mechanism", "username", "password"] as const;

/** Of the log-in as properties make it. A password that is missing is reported with other missing secrets. */
function authViolations(connection: KafkaConnectionRequest): Violation[] {
  const given = connection.auth ?? {};
  const auth = effectiveAuth(connection);
  const unused = [
    ...(usesTls(given) ? [] : unusedFields(connection, auth, tlsFields, "Ssl or SaslSsl")),
    ...(usesSasl(given) ? [] : unusedFields(connection, auth, saslFields, "SaslPlaintext or SaslSsl")),
  ];
  const twice = alternatives.flatMap(([text, location]): Violation[] =>
    given[text] && given[location]
      ? [{ path: `${authPath}/${location}`, message: `given beside ${text}: give one of the two` }]
      : [],
  );
  return [...unused, ...missingLogIn(connection), ...(usesTls(given) ? twice : [])];
}

function missingLogIn(connection: KafkaConnectionRequest): Violation[] {
  const { auth = {} } = connection;
  if (!usesSasl(auth)) return [];
  const missing = (["mechanism", "username"] as const).filter(
    (field) => auth[field] === undefined && !hasProperty(connection, "auth", field),
  );
  return missing.map((field) => ({
    path: `${authPath}/${field}`,
    message: `required with protocol ${auth.protocol}`,
  }));
}

function unusedFields(
  connection: KafkaConnectionRequest,
  auth: KafkaAuthRequest,
  fields: readonly (keyof KafkaAuthRequest)[],
  protocols: string,
): Violation[] {
  const { protocol = "Plaintext" } = auth;
  const message = `not used with protocol ${protocol}: leave it out, or set protocol to ${protocols}`;
  return fields
    .filter((field) => auth[field])
    .map((field) => ({ path: settingPath(connection, "auth", field), message }));
}

/** As the request has it, with what properties set. */
function effectiveAuth(connection: KafkaConnectionRequest): KafkaAuthRequest {
  return effectiveConnection(completeKafka({ ...bare, connection }).connection).auth;
}

const bare: Omit<KafkaSinkRequest, "connection"> = { format: { native: {} }, topic_options: {} };

// --- producer --------------------------------------------------------------------------------

function producerViolations({ connection }: KafkaSinkRequest): Violation[] {
  const { config } = effectiveConnection(completeKafka({ ...bare, connection }).connection);
  const { producer_pool_size: poolSize, partitioner } = config;
  const at = (setting: string) => settingPath(connection, "config", setting);
  const acks = acksProblem(config);
  const wrong: Violation[] = [];
  if (acks !== null) wrong.push({ path: at("acks"), message: acks });
  if (poolSize > 1)
    wrong.push({
      path: at("producer_pool_size"),
      message: "one producer keeps the order and the transactions: 0 or 1",
    });
  if (partitioner !== undefined && !["murmur2", "murmur2_random"].includes(partitioner))
    wrong.push({
      path: at("partitioner"),
      message:
        "expected murmur2 or murmur2_random: with another one a key would be in another partition than other producers put it in",
    });
  return [...propertyViolations(connection), ...wrong];
}

type Producer = ReturnType<typeof completeKafka>["connection"]["config"];

/** Kafka itself demands All of transactional and of idempotent producers. */
function acksProblem({ acks, transactions, enable_idempotence: isIdempotent }: Producer): string | null {
  if (acks === "All") return null;
  if (acks === "None")
    return "changes would count as delivered that no broker has: All, or Leader with transactions off";
  if (transactions.enabled)
    return 'transactions demand All: leave acks out, or set transactions to {"enabled": false}';
  return isIdempotent ? "enable_idempotence demands All: leave one of the two out" : null;
}

// --- format and topics -----------------------------------------------------------------------

function formatViolations({ format }: KafkaSinkRequest): Violation[] {
  const [[kind, settings] = ["native", {}]] = Object.entries(format);
  const path = `${kafkaPath}/format/${kind}`;
  const { headers } = format.debezium ?? {};
  return [
    ...registryViolations(settings?.format_config ?? {}, `${path}/format_config`),
    ...(headers ? headerViolations(headers, `${path}/headers`) : []),
  ];
}

function registryViolations(config: KafkaFormatConfigRequest, path: string): Violation[] {
  return (["value_serde", "key_serde"] as const).flatMap((serde): Violation[] => {
    const registry = config[serde]?.avro?.schema_registry;
    if (!registry) return [];
    const at = `${path}/${serde}/avro/schema_registry`;
    if (!URL.canParse(registry.url))
      return [{ path: `${at}/url`, message: "expected an http or https address" }];
    const message = "not used at an http address: leave it out, or give an https one";
    const unused = (["ssl_ca", "ssl_certificate", "ssl_key"] as const).filter(
      (field) => registry[field] && !/^https:/i.test(registry.url),
    );
    const alone: Violation[] =
      registry.password !== undefined && registry.username === undefined
        ? [{ path: `${at}/username`, message: "required with password" }]
        : [];
    return [...unused.map((field) => ({ path: `${at}/${field}`, message })), ...alone];
  });
}

function topicViolations({ topic_options: { config = [] } }: KafkaSinkRequest): Violation[] {
  const keys = config.map(({ key }) => key);
  return keys.flatMap((key, index): Violation[] => {
    if (keys.indexOf(key) === index) return [];
    return [{ path: `${kafkaPath}/topic_options/config/${index}/key`, message: "listed more than once" }];
  });
}
