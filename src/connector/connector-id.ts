// The id of a connector, and the names at the source that follow from it.

/** What ids look like; also the pattern of the path parameter. */
export const connectorIdPattern = "^[A-Za-z0-9_-]{1,30}$";

const connectorIdExpression = new RegExp(connectorIdPattern);

export function isConnectorId(text: string): boolean {
  return connectorIdExpression.test(text);
}

// Crockford's base 32, in lower case.
const digits = "0123456789abcdefghjkmnpqrstvwxyz";

/**
 * A new id in the form of a ULID in lower case: 10 characters of time, 16 of chance. Ids of different
 * milliseconds sort by time.
 *
 * @param nowMs milliseconds since 1970-01-01 UTC
 * @param randomBytes gives that many bytes of chance
 */
export function newConnectorId(nowMs: number, randomBytes: (count: number) => Uint8Array): string {
  let time = "";
  for (let rest = nowMs, place = 0; place < 10; place++) {
    time = digits.charAt(rest % 32) + time;
    rest = Math.floor(rest / 32);
  }
  // 256 is a multiple of 32: the low five bits of a byte are as even as the byte is.
  const chance = Array.from(randomBytes(16), (byte) => digits.charAt(byte & 31)).join("");
  return time + chance;
}

/**
 * The replication slot of a connector, and its publication where the source names none. Slot names know lower
 * case, digits and underscore only, so two ids may share one: the second is refused.
 */
export function slotName(connectorId: string): string {
  return `millrace_${connectorId.toLowerCase().replaceAll("-", "_")}`;
}
