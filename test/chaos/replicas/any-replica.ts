// A client of the API that sends each request to any replica which is fit for it, as a load balancer does, and to another one where that fails.

import { ApiClient } from "../../../src/demo/api-client.ts";
import { oneOf, type Random } from "../random.ts";
import type { ChaosReplica } from "./chaos-replica.ts";

const boundMs = 40_000;
const pauseMs = 200;
/** A replica cannot reach the state for the moment. */
const firstServerError = 500;

export class AnyReplica extends ApiClient {
  constructor(
    private readonly replicas: readonly ChaosReplica[],
    private readonly random: Random,
  ) {
    super("http://any.replica");
  }

  /** A request that was lost on its way may have taken effect before it is sent again. */
  override async request(method: string, path: string, body?: unknown): Promise<Response> {
    const giveUpAt = performance.now() + boundMs;
    while (true) {
      const able = this.replicas.filter(({ isAble }) => isAble);
      const answer = await oneOf(this.random, able.length > 0 ? able : this.replicas)
        .api.request(method, path, body)
        .catch((error: Error) => error);
      const isFine = answer instanceof Response && answer.status < firstServerError;
      if (isFine) return answer;
      if (performance.now() > giveUpAt) {
        if (answer instanceof Response) return answer;
        throw answer;
      }
      if (answer instanceof Response) await answer.body?.cancel();
      await Bun.sleep(pauseMs);
    }
  }
}
