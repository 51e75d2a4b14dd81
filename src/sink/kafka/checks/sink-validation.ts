// Validates a Kafka sink: that each broker is reached and lets the user in, what the user may do, and that settings go together with those
// of the brokers. Nothing is written and no topic is made; a connector that runs is not disturbed.

import { bounded } from "../../../connection/bounded.ts";
import { AddressResolver, egressPolicy } from "../../../connection/egress.ts";
import { config, type Finding, permission, ValidationLog } from "../../../connection/validation-log.ts";
import { kafkaMessages } from "../../../connector/config/kafka/kafka-format.ts";
import type { KafkaSinkConfig } from "../../../connector/config/kafka-config.ts";
import type { ValidateEvent } from "../../../connector/validation.ts";
import { type MillraceError, toMillraceError } from "../../../errors/millrace-error.ts";
import { checkpointTopic } from "../checkpoint/checkpoint-topic.ts";
import { checkpointPlan } from "../checkpoint/kafka-store.ts";
import { Cluster } from "../client/cluster.ts";
import { saslOf, type Tls, tlsOf } from "../client/kafka-connection.ts";
import { kafkaFailure } from "../client/kafka-error.ts";
import { type ProducingSettings, producingSettings } from "../kafka-settings.ts";
import { type AvroSerde, SchemaRegistry } from "../registry/schema-registry.ts";
import { topicName } from "../topic-name.ts";
import { aclCommand } from "./acl-command.ts";
import { probeBroker, reachBroker } from "./broker-probe.ts";
import { missingRequests, versionText } from "./broker-version.ts";
import {
  type ClusterFacts,
  type Refusals,
  readCluster,
  tryCreate,
  tryTransactionalId,
} from "./cluster-facts.ts";
import { isReached, nameFinding, type ProbedBroker, portFinding, tlsFinding } from "./connection-findings.ts";
import { checkpointPermission, topicPermission, transactionPermission } from "./permission-findings.ts";
import { settingChecks } from "./setting-findings.ts";
import { templatePattern, templatePrefix } from "./template-pattern.ts";

/** Since the beginning: a validation answers within 10 s, whatever does not answer it. */
const dueMs = { probe: 3_500, facts: 8_000, all: 9_000 };
const answerMs = 3_000;
const passed: Finding = { type: "passed" };

/** What was asked of a cluster that lets the user in. */
interface Answers {
  readonly facts: ClusterFacts;
  readonly checkpoint: Refusals;
  readonly transaction: Refusals;
  readonly topic: Refusals;
  readonly unreached: readonly string[];
}

/**
 * The events of one validation: the tests in their fixed order, then `success` or `failed`. After a failure the rest are skipped. It
 * resolves whatever it finds; only the signal makes it throw, with its reason. `connectorId` null: it is not known yet.
 */
export async function validateKafkaSink(
  sink: KafkaSinkConfig,
  signal: AbortSignal,
  connectorId: string | null,
): Promise<ValidateEvent[]> {
  const log = new ValidationLog();
  const began = performance.now();
  const by = (ms: number) => {
    const left = Math.max(1, Math.ceil(ms - (performance.now() - began)));
    return AbortSignal.any([signal, AbortSignal.timeout(left)]);
  };
  const settings = producingSettings(sink, connectorId ?? "validation");
  const { brokers, auth } = settings.config.connection;
  const tls = await tlsOf(auth).catch((error: unknown) => toMillraceError(error));
  const probing = tls instanceof Error ? null : tls;
  const limit = by(dueMs.probe);
  const probed = await Promise.all(
    brokers.map(async (broker) => ({ broker, probe: await probeBroker(broker, probing, limit) })),
  );
  signal.throwIfAborted();
  recordWays(log, probed);
  log.record(
    { TLS: {} },
    tls instanceof Error ? { type: "failed", reason: tls.message } : tlsFinding(probed, auth),
  );
  const cluster = tls instanceof Error ? null : clusterOf(settings, tls, probed);
  try {
    const answers =
      cluster && log.failure === null ? await ask(cluster, settings, by, signal) : { failure: null };
    recordAnswers(log, settings, connectorId, answers, certificateIn(tls));
  } finally {
    await cluster?.close();
  }
  await recordRegistry(log, settings, signal, by(dueMs.all));
  return log.finish();
}

function recordWays(log: ValidationLog, probed: readonly ProbedBroker[]): void {
  const one = probed.length === 1;
  for (const broker of probed)
    log.record({ Network: { subtype: "DnsResolution" } }, nameFinding(broker, one ? [] : probed));
  for (const broker of probed)
    log.record({ Network: { subtype: "Reachability" } }, portFinding(broker, one ? [] : probed));
}

function clusterOf(settings: ProducingSettings, tls: Tls | null, probed: readonly ProbedBroker[]): Cluster {
  const { auth, config } = settings.config.connection;
  return new Cluster({
    brokers: probed.filter(({ probe }) => isReached(probe)).map(({ broker }) => broker),
    clientId: config.client_id ?? "millrace-validation",
    ...{ tls, sasl: saslOf(auth), connectTimeoutMs: answerMs, requestTimeoutMs: answerMs },
    ...{ metadataAgeMs: Number.POSITIVE_INFINITY, monotonic: () => performance.now() },
  });
}

type Asked = Answers | { readonly failure: string | null };

/** Returns what it was told, or why it could not ask. */
async function ask(
  cluster: Cluster,
  settings: ProducingSettings,
  by: (ms: number) => AbortSignal,
  signal: AbortSignal,
): Promise<Asked> {
  const limit = by(dueMs.facts);
  const { config: sink, topics: plan, sender } = settings;
  const sample = sampleTopic(sink);
  try {
    return await bounded(limit, async () => {
      const facts = await readCluster(cluster, templatePattern(sink));
      const isMissing = facts.checkpoints.presence === "missing";
      const [checkpoint, transaction, topic, ways] = await Promise.all([
        sender.transactionalId !== null && isMissing
          ? tryCreate(cluster, checkpointTopic, checkpointPlan(facts.brokers.length, plan.operationTimeoutMs))
          : [],
        sender.transactionalId === null
          ? []
          : tryTransactionalId(cluster, sender.transactionalId, (ms) => Bun.sleep(ms)),
        sample instanceof Error
          ? []
          : tryCreate(cluster, sample, {
              ...plan,
              replicationFactor: Math.min(plan.replicationFactor, facts.brokers.length),
            }),
        Promise.all(
          facts.brokers.map(async ({ host, port }) => {
            const broker = `${host.includes(":") ? `[${host}]` : host}:${port}`;
            return { broker, way: await reachBroker(broker, by(dueMs.facts - 500)) };
          }),
        ),
      ]);
      const unreached = ways.filter(({ way }) => way.end !== "reached").map(({ broker }) => broker);
      return { facts, checkpoint, transaction, topic, unreached };
    });
  } catch (error) {
    signal.throwIfAborted();
    if (limit.aborted) return { failure: "The brokers did not answer in time." };
    const { code, message } = kafkaFailure(error, "answer the first requests");
    if (code === "sink_authentication_failed" && !message.endsWith("Check auth."))
      return { failure: `${message} Check auth.username, auth.password and auth.mechanism.` };
    if (code !== "sink_unreachable" || saslOf(sink.connection.auth)) return { failure: message };
    const hint =
      "If the listener wants a user name and a password, set auth.protocol to SaslPlaintext or SaslSsl.";
    return { failure: `${message} ${hint}` };
  }
}

function recordAnswers(
  log: ValidationLog,
  settings: ProducingSettings,
  connectorId: string | null,
  asked: Asked,
  certificate: string | null,
): void {
  const answers = "facts" in asked ? asked : null;
  const reason = "failure" in asked ? asked.failure : null;
  log.record({ Authentication: {} }, reason === null ? passed : { type: "failed", reason });
  const found = (find: (given: Answers) => Finding) => (answers ? find(answers) : passed);
  const version = answers ? versionText(answers.facts.features, answers.facts.brokers.length) : "";
  log.record({ ServerInfo: { version } }, found(serverInfo));
  recordPermissions(log, settings, connectorId, found, certificate);
  log.record(
    config("Brokers", "Every broker of the cluster is reached at the address that it has for clients."),
    found(advertised),
  );
  const isTransactional = settings.sender.transactionalId !== null;
  for (const { name, description, inTransactions, find } of settingChecks) {
    const isOff = inTransactions && !isTransactional;
    log.record(config(name, description), isOff ? off : found(({ facts }) => find(settings, facts)));
  }
}

const off: Finding = { type: "skipped", reason: "Transactions are off." };

function recordPermissions(
  log: ValidationLog,
  { config: sink, sender: { transactionalId } }: ProducingSettings,
  connectorId: string | null,
  found: (find: (given: Answers) => Finding) => Finding,
  certificate: string | null,
): void {
  const { connection } = sink;
  const command = (grant: Parameters<typeof aclCommand>[1]) => aclCommand(connection, grant, certificate);
  const { transactional_id: chosenId } = connection.config.transactions;
  const isKnown = connectorId !== null || sink.name !== undefined || chosenId !== undefined;
  const sample = sampleTopic(sink);
  log.record(
    permission("Topics", "The user may write to the tables' topics, and make those that are missing."),
    found(({ facts, topic }) =>
      sample instanceof Error
        ? { type: "failed", reason: sample.message }
        : topicPermission(facts, sample, templatePrefix(sink), topic, command),
    ),
  );
  log.record(
    permission("Transactional id", "The user may write in transactions of the connector's transactional id."),
    transactionalId === null
      ? off
      : found(({ transaction }) => transactionPermission(transactionalId, isKnown, transaction, command)),
  );
  log.record(
    permission("Checkpoints", `The user may read and write topic ${checkpointTopic}.`),
    transactionalId === null
      ? off
      : found(({ facts, checkpoint }) => checkpointPermission(facts.checkpoints, checkpoint, command)),
  );
}

function serverInfo({ facts: { features } }: Answers): Finding {
  const missing = missingRequests(features);
  if (missing.length === 0) return passed;
  const reason = `The brokers are older than Kafka 2.8, or lack a part of its protocol (${missing.join(", ")}): Kafka 2.8 or newer is needed.`;
  return { type: "failed", reason };
}

function advertised({ facts, unreached }: Answers): Finding {
  if (unreached.length === 0) return passed;
  const names = unreached.join(", ");
  const reason =
    `The cluster names ${facts.brokers.length === unreached.length ? "its brokers" : "brokers"} as ${names}, which cannot be reached from here. ` +
    "Set advertised.listeners of the brokers to addresses that this machine can reach.";
  return { type: "failed", reason };
}

/** With Avro alone there is something to test. */
async function recordRegistry(
  log: ValidationLog,
  { config: sink }: ProducingSettings,
  signal: AbortSignal,
  limit: AbortSignal,
): Promise<void> {
  const { value, key } = kafkaMessages(sink.format);
  const serdes = [value, key].flatMap((serde) => (serde.kind === "avro" ? [serde] : []));
  const different = serdes.filter(
    (serde, index) => serdes.findIndex((each) => Bun.deepEquals(each, serde)) === index,
  );
  for (const serde of different) {
    const test = config(
      "Schema registry",
      `The schema registry ${new URL(serde.registry.url).host} answers.`,
    );
    log.record(test, log.failure === null ? await registryFinding(serde, signal, limit) : passed);
  }
}

async function registryFinding(serde: AvroSerde, signal: AbortSignal, limit: AbortSignal): Promise<Finding> {
  try {
    const resolver = new AddressResolver(egressPolicy(process.env));
    await new SchemaRegistry(serde, resolver).check(limit);
    return passed;
  } catch (error) {
    signal.throwIfAborted();
    const reason = limit.aborted
      ? "The schema registry did not answer in time."
      : toMillraceError(error).message;
    return { type: "failed", reason };
  }
}

/** Stands for a table's topic; or why the template makes no name. */
function sampleTopic(sink: KafkaSinkConfig): string | MillraceError {
  const table = { database: "database", schema: "public", table: "validation" };
  try {
    return topicName(sink.topic_name_template, table, sink.topic_options.naming_mode);
  } catch (error) {
    return toMillraceError(error);
  }
}

function certificateIn(tls: Tls | Error | null): string | null {
  return tls && !(tls instanceof Error) && typeof tls.cert === "string" ? tls.cert : null;
}
