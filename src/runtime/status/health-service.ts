// Reports whether the service can do its work.

import type { HealthService, Readiness } from "../../api/services.ts";
import type { State } from "../../state/open-state.ts";
import { stuckAfterMs, type ThreadWatch } from "../threads/thread-watch.ts";
import { withStoreTimeout } from "./store-timeout.ts";

export class LiveHealthService implements HealthService {
  constructor(
    private readonly state: State,
    private readonly threads: ThreadWatch,
    /** Why the service as a whole is not ready: it starts, or stops. Null: it is. */
    private readonly unready: () => string | null,
  ) {}

  async readiness(): Promise<Readiness> {
    const reason = this.unready() ?? threadTrouble(this.threads) ?? (await stateTrouble(this.state));
    return reason === null ? { ready: true } : { ready: false, reason };
  }
}

/** Null: the store answers. */
export async function stateTrouble(state: State): Promise<string | null> {
  const ping = state.ping().then(
    () => null,
    (error: unknown) => (error instanceof Error ? error.message : "The state store failed."),
  );
  return await withStoreTimeout(ping, "The state store does not answer.");
}

/** Describes a stuck worker; null: none is stuck. */
export function threadTrouble(threads: ThreadWatch): string | null {
  const [stuck] = threads.stuck();
  if (!stuck) return null;
  const { connector, thread } = stuck;
  return (
    `The ${thread} worker of connector ${connector} has given no sign of life for ${stuckAfterMs / 1000} s. Send it the command Restart ` +
    `(millrace connectors restart ${connector}); it goes on from its checkpoint.`
  );
}
