// Replicas in simulated time over one store in memory, which tells the others of what one changes.

import { MemoryLeases } from "./memory-leases.ts";
import { randomFrom, SimulatedNetwork } from "./simulated-network.ts";
import type { SimulatedReplica } from "./simulated-replica.ts";
import { SimulatedTime } from "./simulated-time.ts";

/** `connectors`: their ids. `hasNotices` false: replicas see changes by looking alone. */
export function simulatedInstallation(seed: number, connectors: readonly string[], hasNotices = true) {
  const time = new SimulatedTime();
  const random = randomFrom(seed);
  const network = new SimulatedNetwork(time, random);
  const replicas: SimulatedReplica[] = [];
  const store = new MemoryLeases(
    () => time.now,
    (by) => {
      if (!hasNotices) return;
      for (const each of replicas) if (each.self.instance !== by) network.send(() => each.poke());
    },
  );
  for (const id of connectors) store.add(id);
  return { time, random, network, store, replicas };
}
