// What a test's broker is told: its listeners, who may come in by them, and settings with which tests are quick.

import type { CertificateAuthority } from "../servers/certificate-authority.ts";

/**
 * MTLS is a listener of TLS that requires a certificate of its clients; PROXIED is plain, and says that it is where a
 * proxy stands. SASL takes PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512.
 */
export type KafkaListener = "PLAINTEXT" | "PROXIED" | "SSL" | "MTLS" | "SASL_PLAINTEXT" | "SASL_SSL";

const protocols = {
  PLAINTEXT: "PLAINTEXT",
  PROXIED: "PLAINTEXT",
  SSL: "SSL",
  MTLS: "SSL",
  SASL_PLAINTEXT: "SASL_PLAINTEXT",
  SASL_SSL: "SASL_SSL",
} satisfies Record<KafkaListener, string>;

export type Properties = Readonly<Record<string, string | number | boolean>>;

export interface NodePorts {
  readonly controller: number;
  readonly listeners: ReadonlyMap<KafkaListener, number>;
  /** Where clients of PROXIED are sent. */
  readonly proxy: number;
}

export interface BrokerSettings {
  readonly node: number;
  /** Of every node, this one's among them; node 1 comes first. */
  readonly ports: readonly NodePorts[];
  readonly data: string;
  readonly users: Readonly<Record<string, string>>;
  readonly authorize: boolean;
  readonly pem: PemFiles | null;
}

export interface PemFiles {
  readonly keyStore: string;
  readonly trustStore: string;
}

export function brokerProperties(settings: BrokerSettings): Properties {
  return {
    ...quickness(settings.ports.length),
    ...listeners(settings),
    ...(settings.pem ? tls(settings.pem) : {}),
    ...sasl(settings),
    ...(settings.authorize ? authorization : {}),
    "log.dirs": settings.data,
  };
}

/** With TLS a name that certificates can bear. */
export function hostOf(listener: KafkaListener): string {
  return protocols[listener].endsWith("SSL") ? "localhost" : "127.0.0.1";
}

/** Whether a listener's brokers show a certificate. */
export function isOverTls(listener: KafkaListener): boolean {
  return protocols[listener].endsWith("SSL");
}

/** What `kafka-storage format --add-scram` takes. */
export function scramUsers(users: Readonly<Record<string, string>>): string[] {
  return Object.entries(users).flatMap(([name, password]) =>
    ["SCRAM-SHA-256", "SCRAM-SHA-512"].map((mechanism) => `${mechanism}=[name=${name},password=${password}]`),
  );
}

export function propertiesText(properties: Properties): string {
  return Object.entries(properties)
    .map(([name, value]) => `${name}=${String(value).replaceAll("\\", "\\\\")}\n`)
    .join("");
}

/** The key store: a key as PKCS #8, and its certificate. */
export function serverPem(authority: CertificateAuthority, pkcs8: (key: string) => string): string {
  const { certificate, key } = authority.issue({ commonName: "localhost", dnsName: "localhost" });
  return `${pkcs8(key)}${certificate}`;
}

function quickness(brokers: number): Properties {
  const replicas = Math.min(3, brokers);
  return {
    "auto.create.topics.enable": false,
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.replication.factor": replicas,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 4,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1_000,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
    // A broker that is killed is missed after this time: others lead, or it may come back. Nine seconds is the default.
    "broker.session.timeout.ms": brokers === 1 ? 2_000 : 4_000,
    "broker.heartbeat.interval.ms": 400,
    "num.network.threads": 2,
    "num.io.threads": 4,
    // The default is half of the heap.
    "log.cleaner.dedupe.buffer.size": 4_194_304,
  };
}

function listeners({ node, ports }: BrokerSettings): Properties {
  const own = ports[node - 1]!;
  const names = [...own.listeners];
  const isProxied = (name: KafkaListener) => name === "PROXIED";
  return {
    "process.roles": "broker,controller",
    "node.id": node,
    "controller.quorum.voters": ports
      .map(({ controller }, index) => `${index + 1}@127.0.0.1:${controller}`)
      .join(","),
    listeners: [
      ...names.map(([name, port]) => `${name}://127.0.0.1:${port}`),
      `CONTROLLER://127.0.0.1:${own.controller}`,
    ].join(","),
    "advertised.listeners": names
      .map(([name, port]) => `${name}://${hostOf(name)}:${isProxied(name) ? own.proxy : port}`)
      .join(","),
    "listener.security.protocol.map": [
      "CONTROLLER:PLAINTEXT",
      ...names.map(([name]) => `${name}:${protocols[name]}`),
    ].join(","),
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
  };
}

function tls({ keyStore, trustStore }: PemFiles): Properties {
  return {
    "ssl.keystore.type": "PEM",
    "ssl.keystore.location": keyStore,
    "ssl.truststore.type": "PEM",
    "ssl.truststore.location": trustStore,
    "listener.name.mtls.ssl.client.auth": "required",
  };
}

function sasl({ node, ports, users }: BrokerSettings): Properties {
  const names = [...ports[node - 1]!.listeners.keys()].filter((name) => name.startsWith("SASL_"));
  if (names.length === 0) return {};
  const known = Object.entries(users).map(
    ([name, password]) => ` user_${name}="${password.replaceAll(/["\\]/g, "\\$&")}"`,
  );
  const properties: Record<string, string> = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
  };
  for (const name of names) {
    const prefix = `listener.name.${name.toLowerCase()}`;
    properties[`${prefix}.plain.sasl.jaas.config`] =
      `org.apache.kafka.common.security.plain.PlainLoginModule required${known.join("")};`;
    for (const mechanism of ["scram-sha-256", "scram-sha-512"]) {
      properties[`${prefix}.${mechanism}.sasl.jaas.config`] =
        "org.apache.kafka.common.security.scram.ScramLoginModule required;";
    }
  }
  return properties;
}

/** Who comes by a plain listener may do everything: the brokers themselves, and the tests' tool. */
const authorization: Properties = {
  "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
  "super.users": "User:ANONYMOUS",
};
