// The id of a connector, and the names at the source that follow from it.

/** The form of ids; also the pattern of the path parameter. */
const connectorIdPattern = "^[A-Za-z0-9_-]{1,30}$";

const connectorIdExpression = new RegExp(connectorIdPattern);

export function isConnectorId(text: string): boolean {
  return connectorIdExpression.test(text);
}

// Crockford's base 32, in lower case.
const digits = "0123456789abcdefghjkmnpqrstvwxyz";

/**
 * A new id in the form of a ULID in lower case: 10 characters of time, 16 random ones. Ids of different milliseconds
 * sort by time.
 *
 * @param nowMs milliseconds since 1970-01-01 UTC
 * @param randomBytes returns that many random bytes
 */
export function newConnectorId(nowMs: number, randomBytes: (count: number) => Uint8Array): string {
  let time = "";
  for (let rest = nowMs, digit = 0; digit < 10; digit++) {
    time = digits.charAt(rest % 32) + time;
    rest = Math.floor(rest / 32);
  }
  // 256 is a multiple of 32, so the low five bits of a random byte are uniform.
  const random = Array.from(randomBytes(16), (byte) => digits.charAt(byte & 31)).join("");
  return time + random;
}

/**
 * The name of a connector's replication slot, and of its publication where the source names none. Slot names allow
 * lower case, digits and underscore only, so two ids may give the same name: the second connector is refused.
 */
export function slotName(connectorId: string): string {
  return `millrace_${connectorId.toLowerCase().replaceAll("-", "_")}`;
}

/** SQL that drops at the source what is left of a connector there: its slot, and the publications that were made for it. */
export function dropsAtSource(connectorId: string): readonly string[] {
  const slot = slotName(connectorId);
  return [
    `SELECT pg_drop_replication_slot('${slot}') FROM pg_replication_slots WHERE slot_name = '${slot}'`,
    `DROP PUBLICATION IF EXISTS "${slot}", "${slot}$append"`,
  ];
}
