// Counts for the API how many tables are being copied, over all connectors.

import type { SnapshotActivity, SnapshotService } from "../api/services.ts";
import type { StatusBoard } from "./status/status-board.ts";
import type { Supervisor } from "./supervisor.ts";

export class LiveSnapshotService implements SnapshotService {
  constructor(
    private readonly board: StatusBoard,
    private readonly supervisor: Supervisor,
  ) {}

  activity(): SnapshotActivity {
    const tasks = this.supervisor.taskLoad();
    const copies = this.board.copyLoad();
    const count = copies.running + tasks.running;
    return { active: count > 0, count, throttled: count > 0 && copies.waiting + tasks.waiting > 0 };
  }
}
