// The names of topics, which of them a template may mean, and tables that would share one against the template. Pure.

import type { KafkaSinkConfig, NamingMode } from "../../connector/config/kafka-config.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import { checkpointTopic } from "./checkpoint/checkpoint-topic.ts";

export interface TopicTable {
  readonly database: string;
  readonly schema: string;
  readonly table: string;
}

export interface TopicCollision {
  readonly topic: string;
  /** Two or more. */
  readonly tables: readonly TopicTable[];
}

/** Kafka's own bound, org.apache.kafka.common.internals.Topic. */
const maxLength = 249;
const illegal = /[^A-Za-z0-9._-]/g;

/** Postgres has both: its tables are told apart by their schemas. */
const placeholders: Readonly<Record<string, keyof TopicTable>> = {
  database: "database",
  schema: "schema",
  table: "table",
  database_or_schema: "schema",
};

/**
 * The topic of a table. `template` has passed the schema of the configuration: it has no other placeholder.
 *
 * Throws `invalid_topic_name` if Kafka takes no such name.
 */
export function topicName(template: string, table: TopicTable, namingMode: NamingMode): string {
  const filled = template.replaceAll(/\{(\w+)\}/g, (whole, placeholder: string) => {
    const part = placeholders[placeholder];
    return part === undefined ? whole : table[part];
  });
  const topic = filled.replaceAll(illegal, (unit) => legalText(unit, namingMode));
  const problem = nameProblem(topic);
  if (problem === null) return topic;
  throw new MillraceError(
    "invalid_topic_name",
    `The topic of table ${table.schema}.${table.table} would be ${topic}: ${problem}. Set topic_name_template to one that gives the table another name, or exclude the table.`,
  );
}

/** `unit`: one UTF-16 unit. */
function legalText(unit: string, namingMode: NamingMode): string {
  if (namingMode === "Default") return "_";
  return `_u${unit.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
}

function nameProblem(topic: string): string | null {
  if (topic === "." || topic === "..") return "Kafka keeps this name for itself";
  if (topic === "") return "the name is empty";
  return topic.length > maxLength ? `${topic.length} characters, and Kafka takes at most ${maxLength}` : null;
}

/**
 * Tables that share a topic though the template tells them apart: their names differ in something that it names, and come
 * to the same text. Tables that are the same in all that it names share a topic on purpose: so all do with a template
 * without placeholders, and tables of one name with `{table}` alone.
 *
 * Throws as `topicName`.
 */
export function topicCollisions(
  template: string,
  tables: readonly TopicTable[],
  namingMode: NamingMode,
): readonly TopicCollision[] {
  const named = namedParts(template);
  const byTopic = Map.groupBy(tables, (table) => topicName(template, table, namingMode));
  return [...byTopic].flatMap(([topic, sharing]) => {
    const different = new Set(sharing.map((table) => JSON.stringify(named.map((part) => table[part]))));
    return different.size > 1 ? [{ topic, tables: sharing }] : [];
  });
}

function namedParts(template: string): readonly (keyof TopicTable)[] {
  const found = [...template.matchAll(/\{(\w+)\}/g)].map(([, placeholder = ""]) => placeholders[placeholder]);
  return [...new Set(found.filter((part) => part !== undefined))];
}

type Named = Pick<KafkaSinkConfig, "topic_name_template">;

const placeholder = /\{\w+\}/;

/** Whether a topic may be one of a table. */
export function templatePattern({ topic_name_template: template }: Named): (topic: string) => boolean {
  const constant = template.split(placeholder).map((part) => RegExp.escape(part.replaceAll(illegal, "_")));
  const pattern = new RegExp(`^${constant.join(".+")}$`, "s");
  return (topic) => pattern.test(topic) && !topic.startsWith("__") && topic !== checkpointTopic;
}

/** What every topic begins with; empty: nothing. */
export function templatePrefix({ topic_name_template: template }: Named): string {
  return template.split(placeholder)[0]!.replaceAll(illegal, "_");
}
