// What people are told while messages are parked, and how often.

/** Null: none is. */
export function parkedWarning(connectorId: string, messages: number, bytes: number): string | null {
  if (messages === 0) return null;
  const what = messages === 1 ? "1 message is" : `${messages.toLocaleString("en-US")} messages are`;
  return (
    `${what} parked (${bytes.toLocaleString("en-US")} bytes): they were refused, or wait behind one of their key. ` +
    `"millrace parked list ${connectorId}" shows them`
  );
}

/** A warning whose numbers alone change is told so often. */
const warningSpacingMs = 10_000;

/** Returns what is to be called with what is parked whenever that has changed. */
export function parkedWarner(
  connectorId: string,
  monotonic: () => number,
  tell: (reason: string | null) => void,
): (messages: number, bytes: number) => void {
  let toldMs = Number.NEGATIVE_INFINITY;
  return (messages, bytes) => {
    if (messages > 0 && monotonic() - toldMs < warningSpacingMs) return;
    toldMs = messages > 0 ? monotonic() : Number.NEGATIVE_INFINITY;
    tell(parkedWarning(connectorId, messages, bytes));
  };
}
