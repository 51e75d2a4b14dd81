// Refuses a connection pooler that lends the server's sessions to its clients for a transaction each, as PgBouncer does with
// pool_mode = transaction. What a session listens to, locks or sets is not its own there: replicas would not hear of each
// other, and locks would outlive the service. A pooler or a proxy that keeps a session for each client is as good as none.

import { MillraceError } from "../../errors/millrace-error.ts";
import { type StateConnection, StateSession } from "./state-session.ts";

const name = "millrace state";
const answerMs = 10_000;
/** What one session tells another is there within milliseconds. */
const heardMs = 5_000;

/** Throws `invalid_setting`, or the driver's error. */
export async function refusePooler(connection: StateConnection): Promise<void> {
  const heard = Promise.withResolvers<boolean>();
  const onNotify = () => heard.resolve(true);
  await using listener = await StateSession.open(connection, { name, answerMs, onNotify });
  if (!listener.isProxied) return;
  await using teller = await StateSession.open(connection, { name, answerMs });
  const channel = `"millrace ${crypto.randomUUID()}"`;
  await listener.run((sql) => sql.unsafe(`listen ${channel}`));
  await teller.run((sql) => sql.unsafe(`notify ${channel}`));
  if (await Promise.race([heard.promise, Bun.sleep(heardMs)])) return;
  throw new MillraceError(
    "invalid_setting",
    "DATABASE_URL leads to a connection pooler that lends a session to one client after the other: replicas would not hear of " +
      "each other. Connect to the server itself, not to a pooler.",
  );
}
