// Compares a connector that was sent with the one that was read, as a declarative client does.

const nullsAtTheTop = ["name", "buffer", "limits", "schedule", "identifier_naming"];
/** Words that have a default. Any other text is the client's alone. */
const words = new Set([
  ...["ssl_mode", "toast_mode", "compression", "default_action", "action", "algorithm", "encoding"],
  ...["column_conflict", "table_conflict"],
  ...["protocol", "acks", "compression_type", "producer_preset", "naming_mode", "subject_name_strategy"],
  ...["binary_handling_mode", "decimal_handling_mode", "time_precision_mode"],
]);

type Members = Readonly<Record<string, unknown>>;
const isObject = (value: unknown): value is Members =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Paths where `read` says something else than `sent`, or something that nobody sent and is no scalar. */
export function givenDifferences(sent: unknown, read: unknown, at = ""): string[] {
  if (Array.isArray(sent) && Array.isArray(read)) {
    if (sent.length !== read.length) return [at];
    return sent.flatMap((item, index) => givenDifferences(item, read[index], `${at}/${index}`));
  }
  if (!isObject(sent) || !isObject(read)) {
    const isHidden = read === "***" && typeof sent === "string";
    return isHidden || Bun.deepEquals(sent, read) ? [] : [at];
  }
  const kept = Object.entries(sent).flatMap(([key, value]) =>
    givenDifferences(value, read[key], `${at}/${key}`),
  );
  const madeUp = Object.entries(read).filter(([key, value]) => !(key in sent) && !mayBeAdded(key, value, at));
  return [...kept, ...madeUp.map(([key]) => `${at}/${key} (made up)`)];
}

function mayBeAdded(key: string, value: unknown, at: string): boolean {
  if (at === "" && nullsAtTheTop.includes(key)) return value === null;
  return ["boolean", "number"].includes(typeof value) || (typeof value === "string" && words.has(key));
}
