// Waits until both connectors of a stage have copied their tables and stream.

import { connectorIds, type DemoStage } from "../../../src/demo/demo-stage.ts";
import { waitFor } from "../wait-for.ts";

export function untilStreaming(stage: DemoStage): Promise<true> {
  return waitFor(
    "both connectors stream",
    async () => {
      const all = await Promise.all(connectorIds.map((id) => stage.api.connector(id)));
      return all.every(({ status }) => status.state.realtime !== undefined);
    },
    { timeoutMs: 60_000 },
  );
}
