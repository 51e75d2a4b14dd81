// Whether the service can do its work now.

import type { HealthService, Readiness } from "../api/services.ts";
import type { State } from "../state/open-state.ts";

/** A store that takes longer than this does not answer, as far as a load balancer is concerned. */
const pingMs = 2_000;

export class LiveHealthService implements HealthService {
  constructor(
    private readonly state: State,
    private readonly stopping: AbortSignal,
  ) {}

  async readiness(): Promise<Readiness> {
    if (this.stopping.aborted) return { ready: false, reason: "The service is stopping." };
    const timeout = Bun.sleep(pingMs).then(() => "The state store does not answer.");
    const ping = this.state.ping().then(
      () => null,
      (error: unknown) => (error instanceof Error ? error.message : "The state store failed."),
    );
    const reason = await Promise.race([ping, timeout]);
    return reason === null ? { ready: true } : { ready: false, reason };
  }
}
