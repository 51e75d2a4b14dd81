// The connector's slot, and consistent points for copies: checks the slot against the checkpoint and frees it of an
// earlier run's walsender. The slot's SQL is in slot.ts.

import type { Client } from "pg";
import type { Checkpoint } from "../../../change/checkpoint.ts";
import type { Lsn } from "../../../change/lsn.ts";
import type { Permits } from "../../../concurrency/semaphore.ts";
import { closeClient } from "../../../connection/postgres-client.ts";
import { describePostgresError } from "../../../connection/postgres-failure.ts";
import type { PostgresConnection } from "../../../connector/config/connection.ts";
import type { MillraceError } from "../../../errors/millrace-error.ts";
import type { KeptLog, SourceContext } from "../../source.ts";
import type { SnapshotPoint } from "../../table-source.ts";
import type { KeptSession } from "../control-sessions.ts";
import { describeAwaitedStandbys } from "./awaited-standbys.ts";
import { openReplication, takeConsistentPoint } from "./consistent-point.ts";
import { judgeKeptLog, readKeptLog } from "./kept-log.ts";
import { dropSlot, readSlotState, type SlotKind } from "./slot.ts";
import { earlierRuns, freeSlot } from "./slot-holder.ts";
import { SlotReached } from "./slot-reached.ts";
import { judgeSlot, judgeStandby, type KnownRun, type SlotState, setBack } from "./slot-state.ts";
import { formatLog, judgeLog, readLog } from "./source-log.ts";

/** See `SlotReached`. */
const defaultKeptAfterMs = 60_000;
/** Key of whether the slot was last streamed from while its server was a standby. */
const standbyKey = "slot of a standby";

/** A stream from the slot. */
interface LogEndObserver {
  /** Returns whether the server sends nothing, though its log goes on. */
  observeLogEnd(at: Lsn): boolean;
}

export interface SlotContext extends SourceContext {
  /** If the slot is lost, the connector may be given the command Resume. */
  readonly isResumable?: boolean;
}

export class SourceSlot {
  readonly #reached: SlotReached;
  /** The server's log, as soon as that is known. */
  #log: string | null = null;
  /** As far as is known, there is a slot to go on with. */
  #isMade: boolean;

  constructor(
    readonly name: string,
    private readonly connection: PostgresConnection,
    private readonly context: SlotContext,
    /** For the sessions that check snapshots' sessions; undefined: their number is not bounded. */
    private readonly permits: Permits | undefined,
    reachedAfterMs = defaultKeptAfterMs,
  ) {
    this.#reached = new SlotReached(context.state, reachedAfterMs);
    this.#isMade = context.isBegun === true && context.resumes !== true;
  }

  /**
   * Call it before anything is made at the source. A connector that has made nothing there leaves the slot, and publications of the
   * same names, to whoever reads from it: a second service that was given the first one's connectors, as a copy for tests. Throws
   * `slot_active` then, or `lease_lost`.
   */
  async willMakeObjects(client: Client): Promise<void> {
    const { state } = this.context;
    if (!state.hasObjects) await this.free(client);
    await state.willMakeObjects();
  }

  /** Drops an earlier slot of the name. Before something is made at the source, the state has to know of it. */
  async drop(client: Client, signal: AbortSignal): Promise<void> {
    const { owner, term, state } = this.context;
    this.#reached.forget();
    state.set(standbyKey, null);
    await this.willMakeObjects(client);
    await dropSlot(client, this.name, signal, { owner, term, confirm: () => state.willMakeObjects() });
  }

  /** Creates the slot, which must not exist. Nothing else may use the session: the point keeps it. `stop` ends waiting. */
  async create(session: KeptSession, stop: AbortSignal): Promise<SnapshotPoint> {
    const point = await this.#point(session, this.name, "permanent", stop);
    this.#log = point.log;
    this.#isMade = true;
    // The earlier slot may have been seen meanwhile.
    this.#reached.forget();
    return point;
  }

  /** The stream has begun. A standby that can be streamed from has a slot of its own, which no other server has. */
  streams(isStandby: boolean): void {
    this.context.state.set(standbyKey, isStandby ? "streamed" : null);
  }

  /** What the server keeps of its log for the slot; null: there is no slot. `stream`: what reads from it. */
  async keptLog(client: Client, stream: LogEndObserver | null): Promise<KeptLog | null> {
    const facts = await readKeptLog(client, this.name);
    if (facts === null) return null;
    const { catalogXmin, logEnd } = facts;
    if (catalogXmin !== null && this.#log !== null)
      this.#reached.saw(this.#log, catalogXmin, performance.now());
    const standsStill = stream?.observeLogEnd(logEnd) ?? false;
    const standbys = standsStill ? await describeAwaitedStandbys(client, this.name) : null;
    this.context.events.warning(
      "standbys",
      standbys && `The source sends nothing more: it waits for ${standbys}`,
    );
    return judgeKeptLog(this.name, { ...facts, heldFor: standbys ?? facts.heldFor }, this.#known.isResumable);
  }

  /** A later consistent point, by a temporary slot. As `create`. */
  laterPoint(session: KeptSession, stop: AbortSignal): Promise<SnapshotPoint> {
    const name = `${this.name.slice(0, 50)}_${crypto.randomUUID().slice(0, 8)}`.replaceAll("-", "_");
    return this.#point(session, name, "temporary", stop);
  }

  /**
   * Throws `source_is_standby` where a standby answers that the slot is not of. It may show tables as they were, and lets nobody alter
   * a publication.
   */
  async requireSource(client: Client): Promise<void> {
    if (!this.#isMade) return;
    const standby = judgeStandby(this.name, await readSlotState(client, this.name), this.#wasStandby);
    if (standby) throw standby;
  }

  /** Throws why the stream cannot continue from the checkpoint by this slot, or `slot_active`. */
  async check(client: Client, checkpoint: Checkpoint): Promise<void> {
    const slot = await readSlotState(client, this.name);
    const problem = judgeSlot(this.name, slot, checkpoint, this.#known) ?? this.#judgeReached(slot);
    if (problem) {
      // Another replica may have moved the slot since the checkpoint was read: that is no loss.
      if ((this.context.term ?? null) !== null) await this.context.state.confirmTerm();
      throw problem;
    }
    await this.free(client);
  }

  /** Terminates the walsender of an earlier run. Throws `slot_active` when something else reads from the slot, or `lease_lost`. */
  free(client: Client): Promise<void> {
    return freeSlot(client, this.name, earlierRuns(this.context), this.context.signal);
  }

  /** Returns the name of the server's current log. Throws why the checkpoint is not a position in it. */
  async checkLog(checkpoint: Checkpoint): Promise<string> {
    const replication = await openReplication(this.connection, this.context, this.context.signal);
    try {
      const log = await readLog(replication);
      const problem = judgeLog(log, checkpoint, this.#known);
      if (problem) throw problem;
      this.#log = formatLog(log);
      return this.#log;
    } catch (error) {
      throw describePostgresError(error, "source");
    } finally {
      await closeClient(replication);
    }
  }

  #judgeReached({ catalogXmin }: SlotState): MillraceError | null {
    if (this.#log === null || catalogXmin === null) return null;
    const isSetBack = this.#reached.isSetBack(this.#wasStandby ? null : this.#log, catalogXmin);
    return isSetBack ? setBack(this.name, this.#known.isResumable) : null;
  }

  get #known(): Required<KnownRun> {
    return { wasStandby: this.#wasStandby, isResumable: this.context.isResumable ?? false };
  }

  /** The last stream came from a standby. */
  get #wasStandby(): boolean {
    return this.context.state.get(standbyKey) !== undefined;
  }

  #point(session: KeptSession, slot: string, kind: SlotKind, stop: AbortSignal): Promise<SnapshotPoint> {
    const { connection, permits } = this;
    const { signal, events } = this.context;
    const warn = (reason: string | null, commands?: readonly string[]) =>
      events.warning("slot", reason, commands);
    return takeConsistentPoint({
      connection,
      session,
      slot,
      kind,
      run: this.context,
      permits,
      signal,
      stop,
      warn,
    });
  }
}
