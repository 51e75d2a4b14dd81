// Commands, patches and tasks that are sent to any replica while faults are played.

import { oneOf, type Random } from "../random.ts";
import type { ReplicaChaosStage } from "./replica-chaos-stage.ts";

const kinds: readonly ((stage: ReplicaChaosStage, id: string, random: Random) => Promise<unknown>)[] = [
  ({ api }, id) => api.command(id, "Stop"),
  ({ api }, id) => api.command(id, "Start"),
  ({ api }, id) => api.command(id, "Restart"),
  ({ api }, id, random) => api.call("PATCH", `/api/v1/connectors/${id}`, { name: `n${random()}` }),
  ({ api }, id, random) => {
    const name = id === "to-kafka" ? "a" : oneOf(random, ["parents", "large", "children"]);
    const spec = { schema: "public", name, truncate: random() < 0.5 };
    return api.request("POST", `/api/v1/connectors/${id}/tasks`, { Snapshot: spec });
  },
];

export interface Commands {
  /** How many were answered. */
  readonly count: number;
  /** All connectors are to run. */
  stop(): Promise<void>;
}

export function beginCommands(stage: ReplicaChaosStage, random: Random): Commands {
  const over = new AbortController();
  let count = 0;
  const play = async () => {
    while (!over.signal.aborted) {
      await Bun.sleep(200 + random() * 3_000);
      const id = oneOf(random, stage.connectorIds);
      // The state may be away for longer than anybody waits.
      const isDone = await oneOf(random, kinds)(stage, id, random).then(
        () => true,
        () => false,
      );
      if (isDone) count++;
    }
  };
  stage.isCommanded = true;
  const playing = play();
  return {
    get count() {
      return count;
    },
    async stop() {
      over.abort();
      await playing;
      stage.isCommanded = false;
      for (const id of stage.connectorIds) await stage.api.command(id, "Start");
    },
  };
}
