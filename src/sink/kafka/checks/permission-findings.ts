// What a user who may not do all that the connector needs is told. Pure.

import type { Finding } from "../../../connection/validation-log.ts";
import { checkpointTopic } from "../checkpoint/checkpoint-topic.ts";
import type { Grant } from "./acl-command.ts";
import type { ClusterFacts, Refusals, TopicFacts } from "./cluster-facts.ts";

const passed: Finding = { type: "passed" };
const toldTopics = 3;

type Command = (grant: Grant) => string;

/** `refusals`: of making the topic; empty where it is there. */
export function checkpointPermission(
  { presence, mayRead, mayWrite }: TopicFacts,
  refusals: Refusals,
  command: Command,
): Finding {
  const on = { on: "topic", name: checkpointTopic } as const;
  const all = command({ operations: ["Create", "Read", "Write"], ...on });
  if (presence === "hidden" || refusals.some(isAuthorization)) {
    const reason =
      presence === "hidden"
        ? `The user may not use topic ${checkpointTopic}, which holds the checkpoints.`
        : `Topic ${checkpointTopic}, which holds the checkpoints, is missing, and the user may not make it.`;
    return { type: "failed", reason, commands: [all] };
  }
  if (refusals.length > 0) {
    const { id, message } = refusals[0]!;
    return { type: "failed", reason: `Topic ${checkpointTopic} could not be made: ${id}, ${message}` };
  }
  if (presence === "missing") return { type: "passed", message: "It is made when the connector starts." };
  const lacks = [...(mayRead === false ? ["Read"] : []), ...(mayWrite === false ? ["Write"] : [])];
  if (lacks.length === 0) return passed;
  const reason = `The user may not ${lacks.join(" and ").toLowerCase()} topic ${checkpointTopic}, which holds the checkpoints.`;
  return { type: "failed", reason, commands: [command({ operations: lacks, ...on })] };
}

/** `isKnown` false: the id stands for one that has the connector's own id in it. */
export function transactionPermission(
  transactionalId: string,
  isKnown: boolean,
  refusals: Refusals,
  command: Command,
): Finding {
  const refusal = refusals[0];
  if (!refusal) return passed;
  const on = "transactional-id";
  if (isAuthorization(refusal)) {
    if (isKnown) {
      const reason = `The user may not use the transactional id ${transactionalId}.`;
      const commands = [command({ operations: ["Write"], on, name: transactionalId })];
      return { type: "failed", reason, commands };
    }
    const message =
      "The user may not use every transactional id that begins with millrace-. That of the connector is millrace-<its id>: allow that one, or all of them.";
    return {
      ...{ type: "warned", message },
      commands: [command({ operations: ["Write"], on, name: "millrace-", isPrefix: true })],
    };
  }
  const reason =
    `The brokers have no coordinator for transactions (${refusal.id}). Are there fewer of them than ` +
    "transaction.state.log.replication.factor says (3 by default)? Set that at the brokers, or start the others.";
  return { type: "failed", reason };
}

/** `refusals`: of making `sample`, which stands for a table's topic. */
export function topicPermission(
  { topics }: Pick<ClusterFacts, "topics">,
  sample: string,
  prefix: string,
  refusals: Refusals,
  command: Command,
): Finding {
  const grant = (operations: string[]) =>
    command(
      prefix === ""
        ? { operations, on: "topic", name: "*" }
        : { operations, on: "topic", name: prefix, isPrefix: true },
    );
  const closed = topics.filter(({ mayWrite }) => mayWrite === false).map(({ name }) => name);
  const open = topics.length - closed.length;
  if (closed.length > 0 && open === 0)
    return {
      ...{ type: "failed", reason: `The user may not write to ${named(closed)}.` },
      commands: [grant(["Write"])],
    };
  const mayMake = !refusals.some(isAuthorization);
  if (!mayMake && topics.length === 0)
    return {
      type: "failed",
      reason: `The user may not make topics such as ${sample}, and sees none that topic_name_template names.`,
      commands: [grant(["Create", "Write"])],
    };
  if (!mayMake)
    return {
      type: "warned",
      message: `The user may not make topics such as ${sample}: a table whose topic is missing stops the connector.`,
      commands: [grant(["Create", "Write"])],
    };
  if (closed.length > 0)
    return {
      type: "warned",
      message: `The user may not write to ${named(closed)}: a change of such a table stops the connector.`,
      commands: [grant(["Write"])],
    };
  const refusal = refusals.find(({ id }) => id !== "INVALID_REPLICATION_FACTOR");
  if (!refusal) return passed;
  const reason = `A topic such as ${sample} could not be made: ${refusal.id}, ${refusal.message} Correct topic_options.`;
  return topics.length > 0 ? { type: "warned", message: reason } : { type: "failed", reason };
}

function isAuthorization({ id }: { readonly id: string }): boolean {
  return id.endsWith("AUTHORIZATION_FAILED");
}

export function named(topics: readonly string[]): string {
  const others = topics.length > toldTopics ? ` and ${topics.length - toldTopics} more` : "";
  return `topic${topics.length > 1 ? "s" : ""} ${topics.slice(0, toldTopics).join(", ")}${others}`;
}
