// Validates a Kafka sink: that each broker is reached and lets the user in, what the user may do, and that settings go together with those
// of the brokers. Nothing is written and no topic is made; a connector that runs is not disturbed.

import { bounded } from "../../../concurrency/until-aborted.ts";
import { AddressResolver, egressPolicy } from "../../../connection/egress.ts";
import {
  config,
  type Finding,
  failed,
  passed,
  permission,
  skipped,
  ValidationLog,
} from "../../../connection/validation-log.ts";
import { kafkaMessages } from "../../../connector/config/kafka/kafka-format.ts";
import type { KafkaSinkConfig } from "../../../connector/config/kafka-config.ts";
import type { ValidateEvent } from "../../../connector/validation.ts";
import { type MillraceError, toMillraceError } from "../../../errors/millrace-error.ts";
import { checkpointTopic } from "../checkpoint/checkpoint-topic.ts";
import { checkpointPlan } from "../checkpoint/kafka-store.ts";
import { addressText } from "../client/broker-address.ts";
import { Cluster } from "../client/cluster.ts";
import { saslOf, type Tls, tlsOf } from "../client/kafka-connection.ts";
import { kafkaFailure } from "../client/kafka-error.ts";
import { type ProducingSettings, producingSettings } from "../kafka-settings.ts";
import { type AvroSerde, SchemaRegistry } from "../registry/schema-registry.ts";
import { templatePattern, templatePrefix, topicName } from "../topic-name.ts";
import { aclCommand, type Grant } from "./acl-command.ts";
import { probeBroker, reachBroker } from "./broker-probe.ts";
import { missingRequests, versionText } from "./broker-version.ts";
import {
  type ClusterFacts,
  type Refusals,
  readCluster,
  tryCreate,
  tryTransactionalId,
} from "./cluster-facts.ts";
import { isReached, nameFinding, portFinding, tlsFinding } from "./connection-findings.ts";
import { checkpointPermission, topicPermission, transactionPermission } from "./permission-findings.ts";
import { settingChecks, transactionChecks } from "./setting-findings.ts";

/** Since the beginning: a validation answers within 10 s, whatever does not answer it. */
const dueMs = { probe: 3_500, reach: 7_500, facts: 8_000, all: 9_000 };
const answerMs = 3_000;
const off = skipped("Transactions are off.");

/** What the checks of one validation are made with. */
interface Validation {
  readonly log: ValidationLog;
  readonly settings: ProducingSettings;
  /** Null: it is not known yet. */
  readonly connectorId: string | null;
  readonly signal: AbortSignal;
  /** Fires so many milliseconds after the beginning, and with the signal. */
  readonly by: (ms: number) => AbortSignal;
  /** Of brokers' addresses. */
  readonly resolver: AddressResolver;
  /** Stands for a table's topic; or why the template makes no name. */
  readonly sample: string | MillraceError;
}

/** What was asked of a cluster that lets the user in. */
interface Answers {
  readonly facts: ClusterFacts;
  readonly checkpoint: Refusals;
  readonly transaction: Refusals;
  readonly topic: Refusals;
  /** Brokers, and why not. */
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
  const began = performance.now();
  const log = new ValidationLog();
  const by = (ms: number) => {
    const left = Math.max(1, Math.ceil(ms - (performance.now() - began)));
    return AbortSignal.any([signal, AbortSignal.timeout(left)]);
  };
  const settings = producingSettings(sink, connectorId ?? "validation");
  const resolver = new AddressResolver("default");
  const validation = {
    log,
    settings,
    connectorId,
    signal,
    by,
    resolver,
    sample: sampleTopic(settings.config),
  };
  const { auth } = settings.config.connection;
  const tls = await tlsOf(auth).catch((error: unknown) => toMillraceError(error));
  const reached = await recordConnections(validation, tls);
  const certificate = tls instanceof Error || typeof tls?.cert !== "string" ? null : tls.cert;
  const answers =
    log.failure === null && !(tls instanceof Error) ? await ask(validation, reached, tls) : null;
  recordAnswers(validation, answers, certificate);
  await recordRegistries(validation);
  return log.finish();
}

/** Returns the brokers that are reached. */
async function recordConnections(
  { log, settings, resolver, by, signal }: Validation,
  tls: Tls | MillraceError | null,
): Promise<readonly string[]> {
  const { brokers, auth } = settings.config.connection;
  const probing = tls instanceof Error ? null : tls;
  const limit = by(dueMs.probe);
  const probed = await Promise.all(
    brokers.map(async (broker) => ({ broker, probe: await probeBroker(broker, probing, resolver, limit) })),
  );
  signal.throwIfAborted();
  for (const broker of probed)
    log.record({ Network: { subtype: "DnsResolution" } }, nameFinding(broker, probed));
  for (const broker of probed)
    log.record({ Network: { subtype: "Reachability" } }, portFinding(broker, probed));
  log.record({ TLS: {} }, tls instanceof Error ? failed(tls.message) : tlsFinding(probed, auth));
  return probed.filter(({ probe }) => isReached(probe)).map(({ broker }) => broker);
}

/** Returns what it was told, or why it could not ask. */
async function ask(
  { settings, by, signal, resolver, sample }: Validation,
  brokers: readonly string[],
  tls: Tls | null,
): Promise<Answers | string> {
  const { config: sink, topics: plan, sender } = settings;
  const { auth, config: producer } = sink.connection;
  const sasl = saslOf(auth);
  const cluster = new Cluster({
    brokers,
    clientId: producer.client_id ?? "millrace-validation",
    tls,
    sasl,
    resolver,
    connectTimeoutMs: answerMs,
    requestTimeoutMs: answerMs,
    metadataAgeMs: Number.POSITIVE_INFINITY,
    monotonic: () => performance.now(),
  });
  const limit = by(dueMs.facts);
  try {
    return await bounded(limit, async () => {
      const facts = await readCluster(cluster, templatePattern(sink));
      const { length } = facts.brokers;
      const { transactionalId } = sender;
      const samplePlan = { ...plan, replicationFactor: Math.min(plan.replicationFactor, length) };
      const [checkpoint, transaction, topic, unreached] = await Promise.all([
        transactionalId !== null && facts.checkpoints.presence === "missing"
          ? tryCreate(cluster, checkpointTopic, checkpointPlan(length, plan.operationTimeoutMs))
          : [],
        transactionalId === null ? [] : tryTransactionalId(cluster, transactionalId, (ms) => Bun.sleep(ms)),
        sample instanceof Error ? [] : tryCreate(cluster, sample, samplePlan),
        unreachedOf(facts.brokers.map(addressText), resolver, by(dueMs.reach)),
      ]);
      return { facts, checkpoint, transaction, topic, unreached };
    });
  } catch (error) {
    signal.throwIfAborted();
    if (limit.aborted) return "The brokers did not answer in time.";
    const { code, message } = kafkaFailure(error, "answer the first requests");
    if (code === "sink_authentication_failed" && !message.endsWith("Check auth."))
      return `${message} Check auth.username, auth.password and auth.mechanism.`;
    if (code !== "sink_unreachable" || sasl) return message;
    return `${message} If the listener wants a user name and a password, set auth.protocol to SaslPlaintext or SaslSsl.`;
  } finally {
    await cluster.close();
  }
}

async function unreachedOf(
  brokers: readonly string[],
  resolver: AddressResolver,
  limit: AbortSignal,
): Promise<readonly string[]> {
  const tried = await Promise.all(
    brokers.map(async (broker) => ({ broker, result: await reachBroker(broker, resolver, limit) })),
  );
  return tried.flatMap(({ broker, result }) =>
    result.end === "reached" ? [] : [`${broker} (${result.code})`],
  );
}

/** `answers` null: nothing was asked, as something has failed. */
function recordAnswers(
  { log, settings, connectorId, sample }: Validation,
  answers: Answers | string | null,
  certificate: string | null,
): void {
  const { config: sink, sender } = settings;
  const { connection } = sink;
  const { transactionalId } = sender;
  const isKnown =
    connectorId !== null ||
    sink.name !== undefined ||
    connection.config.transactions.transactional_id !== undefined;
  const command = (grant: Grant) => aclCommand(connection, grant, certificate);
  const given = typeof answers === "string" ? null : answers;
  const found = (find: (given: Answers) => Finding) => (given ? find(given) : passed);
  const inTransactions = (find: (given: Answers, transactionalId: string) => Finding) =>
    transactionalId === null ? off : found((given) => find(given, transactionalId));

  log.record({ Authentication: {} }, typeof answers === "string" ? failed(answers) : passed);
  const version = given ? versionText(given.facts.features, given.facts.brokers.length) : "";
  log.record({ ServerInfo: { version } }, found(serverInfo));
  log.record(
    permission("Topics", "The user may write to the tables' topics, and make those that are missing."),
    found(({ facts, topic }) =>
      sample instanceof Error
        ? failed(sample.message)
        : topicPermission(facts, sample, templatePrefix(sink), topic, command),
    ),
  );
  log.record(
    permission("Transactional id", "The user may write in transactions of the connector's transactional id."),
    inTransactions(({ transaction }, id) => transactionPermission(id, isKnown, transaction, command)),
  );
  log.record(
    permission("Checkpoints", `The user may read and write topic ${checkpointTopic}.`),
    inTransactions(({ facts, checkpoint }) => checkpointPermission(facts.checkpoints, checkpoint, command)),
  );
  log.record(
    config("Brokers", "Every broker of the cluster is reached at the address that it has for clients."),
    found(advertised),
  );
  for (const [name, description, find] of settingChecks)
    log.record(
      config(name, description),
      found(({ facts }) => find(settings, facts)),
    );
  for (const [name, description, find] of transactionChecks)
    log.record(
      config(name, description),
      inTransactions(({ facts }) => find(settings, facts)),
    );
}

function serverInfo({ facts: { features } }: Answers): Finding {
  const missing = missingRequests(features);
  if (missing.length === 0) return passed;
  return failed(
    `The brokers are older than Kafka 2.8, or lack a part of its protocol (${missing.join(", ")}): Kafka 2.8 or newer is needed.`,
  );
}

function advertised({ facts, unreached }: Answers): Finding {
  if (unreached.length === 0) return passed;
  const who = facts.brokers.length === unreached.length ? "its brokers" : "brokers";
  return failed(
    `The cluster names ${who} as ${unreached.join(", ")}, which cannot be reached from here. ` +
      "Set advertised.listeners of the brokers to addresses that this machine can reach.",
  );
}

/** With Avro alone there is something to test. */
async function recordRegistries({ log, settings, signal, by }: Validation): Promise<void> {
  const { value, key } = kafkaMessages(settings.config.format);
  const serdes = [value, key].flatMap((serde) => (serde.kind === "avro" ? [serde] : []));
  const different = new Map(serdes.map((serde) => [JSON.stringify(serde.registry), serde]));
  for (const serde of different.values()) {
    const test = config(
      "Schema registry",
      `The schema registry ${new URL(serde.registry.url).host} answers.`,
    );
    log.record(test, log.failure === null ? await registryFinding(serde, signal, by(dueMs.all)) : passed);
  }
}

async function registryFinding(serde: AvroSerde, signal: AbortSignal, limit: AbortSignal): Promise<Finding> {
  try {
    await new SchemaRegistry(serde, new AddressResolver(egressPolicy(process.env))).check(limit);
    return passed;
  } catch (error) {
    signal.throwIfAborted();
    return failed(
      limit.aborted ? "The schema registry did not answer in time." : toMillraceError(error).message,
    );
  }
}

function sampleTopic({ topic_name_template: template, topic_options: options }: KafkaSinkConfig) {
  const table = { database: "database", schema: "public", table: "validation" };
  try {
    return topicName(template, table, options.naming_mode);
  } catch (error) {
    return toMillraceError(error);
  }
}
