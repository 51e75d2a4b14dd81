// What a user who may not do all that the connector needs is told. Pure.

import { type Finding, failed, passed, warned } from "../../../connection/validation-log.ts";
import { listedNames } from "../../../errors/listed-names.ts";
import { checkpointTopic } from "../checkpoint/checkpoint-topic.ts";
import type { Grant } from "./acl-command.ts";
import type { ClusterFacts, Refusals, TopicFacts } from "./cluster-facts.ts";

type Command = (grant: Grant) => string;

/** `refusals`: of making the topic; empty where it is there. */
export function checkpointPermission(
  { presence, mayRead, mayWrite }: TopicFacts,
  refusals: Refusals,
  command: Command,
): Finding {
  const topic = `topic ${checkpointTopic}, which holds the checkpoints`;
  const lacking = (reason: string, ...operations: string[]) =>
    failed(reason, [command({ operations, on: "topic", name: checkpointTopic })]);
  if (presence === "hidden") return lacking(`The user may not use ${topic}.`, "Create", "Read", "Write");
  if (refusals.some(isAuthorization))
    return lacking(`The user may not make ${topic}, and it is missing.`, "Create", "Read", "Write");
  const [refusal] = refusals;
  if (refusal) return failed(`Topic ${checkpointTopic} could not be made: ${refusal.id}, ${refusal.message}`);
  if (presence === "missing") return { type: "passed", message: "It is made when the connector starts." };
  const lacks = [...(mayRead === false ? ["Read"] : []), ...(mayWrite === false ? ["Write"] : [])];
  if (lacks.length === 0) return passed;
  return lacking(`The user may not ${lacks.join(" and ").toLowerCase()} ${topic}.`, ...lacks);
}

/** `isKnown` false: the id stands for one that has the connector's own id in it. */
export function transactionPermission(
  transactionalId: string,
  isKnown: boolean,
  [refusal]: Refusals,
  command: Command,
): Finding {
  if (!refusal) return passed;
  const grant = { operations: ["Write"], on: "transactional-id" } as const;
  if (!isAuthorization(refusal))
    return failed(
      `The brokers have no coordinator for transactions (${refusal.id}). Are there fewer of them than ` +
        "transaction.state.log.replication.factor says (3 by default)? Set that at the brokers, or start the others.",
    );
  if (isKnown)
    return failed(`The user may not use the transactional id ${transactionalId}.`, [
      command({ ...grant, name: transactionalId }),
    ]);
  return warned(
    "The user may not use every transactional id that begins with millrace-. That of the connector is millrace-<its id>: allow that one, or all of them.",
    [command({ ...grant, name: "millrace-", isPrefix: true })],
  );
}

/** `refusals`: of making `sample`, which stands for a table's topic. */
export function topicPermission(
  { topics }: Pick<ClusterFacts, "topics">,
  sample: string,
  prefix: string,
  refusals: Refusals,
  command: Command,
): Finding {
  const on = { on: "topic", name: prefix || "*", isPrefix: prefix !== "" } as const;
  const write = [command({ operations: ["Write"], ...on })];
  const create = [command({ operations: ["Create", "Write"], ...on })];
  const closed = topics.filter(({ mayWrite }) => mayWrite === false).map(({ name }) => name);
  const notWritten = `The user may not write to ${named(closed)}`;
  const notMade = `The user may not make topics such as ${sample}`;
  if (closed.length > 0 && closed.length === topics.length) return failed(`${notWritten}.`, write);
  if (refusals.some(isAuthorization))
    return topics.length === 0
      ? failed(`${notMade}, and sees none that topic_name_template names.`, create)
      : warned(`${notMade}: a table whose topic is missing stops the connector.`, create);
  if (closed.length > 0) return warned(`${notWritten}: a change of such a table stops the connector.`, write);
  const refusal = refusals.find(({ id }) => id !== "INVALID_REPLICATION_FACTOR");
  if (!refusal) return passed;
  const reason = `A topic such as ${sample} could not be made: ${refusal.id}, ${refusal.message} Correct topic_options.`;
  return topics.length > 0 ? warned(reason) : failed(reason);
}

function isAuthorization({ id }: { readonly id: string }): boolean {
  return id.endsWith("AUTHORIZATION_FAILED");
}

export function named(topics: readonly string[]): string {
  return `topic${topics.length > 1 ? "s" : ""} ${listedNames(topics)}`;
}
