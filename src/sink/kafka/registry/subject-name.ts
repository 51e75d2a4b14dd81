// Which subject of the registry a schema is a version of: Confluent's strategies. Pure.
// https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#subject-name-strategy

export type SubjectNameStrategy = "TopicName" | "RecordName" | "TopicRecordName";

/** What of a message a schema describes. */
export type MessagePart = "key" | "value";

/** `recordName`: the schema's full name. */
export function subjectName(
  strategy: SubjectNameStrategy,
  topic: string,
  part: MessagePart,
  recordName: string,
): string {
  switch (strategy) {
    case "TopicName":
      return `${topic}-${part}`;
    case "RecordName":
      return recordName;
    case "TopicRecordName":
      return `${topic}-${recordName}`;
    default:
      return strategy satisfies never;
  }
}
