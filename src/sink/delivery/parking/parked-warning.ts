// What people are told while messages are parked. Pure.

/** Null: none is. */
export function parkedWarning(connectorId: string, messages: number, bytes: number): string | null {
  if (messages === 0) return null;
  const what = messages === 1 ? "1 message is" : `${messages.toLocaleString("en-US")} messages are`;
  return (
    `${what} parked (${bytes.toLocaleString("en-US")} bytes): the receiver refused them, or they wait behind one of their key. ` +
    `"millrace parked list ${connectorId}" shows them`
  );
}
