// Counts for the API how many tables are being copied, over all connectors, wherever they run.

import type { SnapshotActivity, SnapshotService } from "../api/services.ts";
import type { Statuses } from "./status/statuses.ts";

export class LiveSnapshotService implements SnapshotService {
  constructor(private readonly statuses: Pick<Statuses, "load">) {}

  activity(): SnapshotActivity {
    const { running: count, waiting } = this.statuses.load();
    return { active: count > 0, count, throttled: count > 0 && waiting > 0 };
  }
}
