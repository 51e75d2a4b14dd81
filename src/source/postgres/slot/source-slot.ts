// The connector's place in the source's log: its slot, judged against the checkpoint and freed of whom an earlier run has left
// there, and the points of the log that copies are made as of. The slot's SQL is in slot.ts.

import type { Client } from "pg";
import type { Checkpoint } from "../../../change/checkpoint.ts";
import { closeClient } from "../../../connection/postgres-client.ts";
import { describePostgresError } from "../../../connection/postgres-failure.ts";
import type { TakesTurns } from "../../../connection/turns.ts";
import type { PostgresConnection } from "../../../connector/config/connection.ts";
import type { SnapshotPoint, SourceContext } from "../../source.ts";
import { openReplication, takeConsistentPoint } from "./consistent-point.ts";
import { readSlotState, type SlotKind } from "./slot.ts";
import { freeSlot, isOfEarlierRun } from "./slot-holder.ts";
import { judgeSlot } from "./slot-state.ts";
import { formatLog, judgeLog, readLog } from "./source-log.ts";

export class SourceSlot {
  constructor(
    readonly name: string,
    private readonly connection: PostgresConnection,
    private readonly context: SourceContext,
    /** Of those who look after the sessions that points are held by; undefined: nothing bounds them. */
    private readonly looks: TakesTurns | undefined,
  ) {}

  /** Makes the slot, which must not be there. `control` is idle meanwhile; `stop` ends the waiting. */
  create(control: Client, stop: AbortSignal): Promise<SnapshotPoint> {
    return this.#point(control, this.name, "permanent", stop);
  }

  /** A later point, by a slot for the moment. `control` is idle meanwhile; `stop` ends the waiting. */
  laterPoint(control: Client, stop: AbortSignal): Promise<SnapshotPoint> {
    const name = `${this.name.slice(0, 50)}_${crypto.randomUUID().slice(0, 8)}`.replaceAll("-", "_");
    return this.#point(control, name, "temporary", stop);
  }

  /** Throws the reason why the stream cannot go on from the checkpoint by this slot, or who holds it. */
  async check(client: Client, checkpoint: Checkpoint): Promise<void> {
    const problem = judgeSlot(this.name, await readSlotState(client, this.name), checkpoint);
    if (problem) throw problem;
    await this.free(client);
  }

  /** Ends a walsender of an earlier run. Throws `slot_active` when somebody else holds the slot. */
  free(client: Client): Promise<void> {
    const { owner, signal } = this.context;
    return freeSlot(client, this.name, isOfEarlierRun(owner), signal);
  }

  /** The log that the server writes now. Throws the reason why the checkpoint is no place in it. */
  async checkLog(checkpoint: Checkpoint): Promise<string> {
    const { owner, signal } = this.context;
    const replication = await openReplication(this.connection, owner, signal);
    try {
      const log = await readLog(replication);
      const problem = judgeLog(log, checkpoint);
      if (problem) throw problem;
      return formatLog(log);
    } catch (error) {
      throw describePostgresError(error, "source");
    } finally {
      await closeClient(replication);
    }
  }

  #point(control: Client, slot: string, kind: SlotKind, stop: AbortSignal): Promise<SnapshotPoint> {
    const { connection, looks: turns } = this;
    const { owner, signal, events } = this.context;
    const warn = (reason: string | null) => events.warning("slot", reason);
    return takeConsistentPoint({ connection, control, slot, kind, owner, turns, signal, stop, warn });
  }
}
