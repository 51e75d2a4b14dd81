// How much is being copied now, over all connectors, for the API.

import type { SnapshotActivity, SnapshotService } from "../api/services.ts";
import type { StatusBoard } from "./status-board.ts";
import type { Supervisor } from "./supervisor.ts";

export class LiveSnapshotService implements SnapshotService {
  constructor(
    private readonly board: StatusBoard,
    private readonly supervisor: Supervisor,
  ) {}

  activity(): SnapshotActivity {
    const tasks = this.supervisor.taskLoad();
    const count = this.board.countInSnapshot() + tasks.running;
    return { active: count > 0, count, throttled: tasks.waiting > 0 && tasks.running > 0 };
  }
}
