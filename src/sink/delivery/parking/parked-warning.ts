// What people are told while messages are parked, and how often.

/** The receiver asked, at `triedAt`, to leave a table alone for so long. */
export interface ParkedWait {
  readonly table: string;
  readonly ms: number;
  readonly triedAt: string;
}

/** Null: none is. */
function parkedWarning(
  connectorId: string,
  messages: number,
  bytes: number,
  wait: ParkedWait | null = null,
): string | null {
  if (messages === 0) return null;
  const what = messages === 1 ? "1 message is" : `${messages.toLocaleString("en-US")} messages are`;
  const until = wait && new Date(Date.parse(wait.triedAt) + wait.ms).toISOString();
  const waits = wait
    ? `. Those of ${wait.table} are not sent again before ${until}: the receiver asks for that with Retry-After`
    : "";
  return (
    `${what} parked (${bytes.toLocaleString("en-US")} bytes): they were refused, or wait behind one of their key. ` +
    `"millrace parked list ${connectorId}" shows them${waits}`
  );
}

/** A warning whose numbers alone change is told so often. */
const warningSpacingMs = 10_000;

/** Returns what is to be called with what is parked whenever that may have changed, and now and then: so the last numbers are told too. */
export function parkedWarner(
  connectorId: string,
  monotonic: () => number,
  tell: (reason: string | null) => void,
): (messages: number, bytes: number, wait?: ParkedWait) => void {
  let toldMs = Number.NEGATIVE_INFINITY;
  let known: ParkedWait | null = null;
  let knownUntilMs = 0;
  let told: string | null | undefined;
  return (messages, bytes, wait) => {
    if (monotonic() >= knownUntilMs) known = null;
    const isNew = wait !== undefined && known === null;
    if (messages > 0 && !isNew && monotonic() - toldMs < warningSpacingMs) return;
    if (isNew) {
      known = wait;
      knownUntilMs = monotonic() + wait.ms;
    }
    const reason = parkedWarning(connectorId, messages, bytes, known);
    if (reason === told) return;
    told = reason;
    toldMs = messages > 0 ? monotonic() : Number.NEGATIVE_INFINITY;
    tell(reason);
  };
}
