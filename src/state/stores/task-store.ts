// The stored tasks. The caller decides which transition is allowed, inside the transaction that `change` opens.

import { and, asc, desc, eq, inArray, sql } from "drizzle-orm";
import type { Task, TaskProgress } from "../../connector/task.ts";
import { specKey, unfinishedStates } from "../../connector/task-state.ts";
import type { Term } from "../../connector/term.ts";
import type { VerifiedTable } from "../../connector/verification.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import { type Database, foreignKeyViolation, sqlState, stored, uniqueViolation } from "../database.ts";
import { leases } from "../replica-tables.ts";
import { tasks } from "../schema.ts";
import { connectorNotFound } from "./connector-store.ts";
import { fenced, lockLease } from "./fence.ts";
import { forgetVerified, listVerified, recordVerified } from "./verified-tables.ts";

/** The most tasks that a listing returns. */
export const taskListBound = 100;
/** The most pending tasks that are read at once. A run works on a few, and tens of thousands may wait. */
export const pendingBound = 100;

/** Of those that have ended in one state, a connector's newest ones stay. */
const endedBound = 1_000;
/** Old ones are deleted in groups of this size, so that most ends cost no statement more. */
const trimEvery = 100;
/** The most that are deleted in one statement: it must not take longer than an answer of the state may. The next one goes on. */
const mostTrimmed = 10_000;

type Row = typeof tasks.$inferSelect;

/** Hears of each change that is stored. It must neither block nor throw. */
export interface TaskWatch {
  /** The task is new, or its state, its attempt or the time of the next one is another. */
  taskChanged(connectorId: string, task: Task): void;
  taskProgressed(connectorId: string, task: Task): void;
}

export class TaskStore {
  /** Set once, where the service is wired; null: nobody watches. */
  watch: TaskWatch | null = null;
  readonly #database: Database;
  /** By connector and state. */
  readonly #sinceTrim = new Map<string, number>();

  constructor(
    database: Database,
    private readonly now: () => Date = () => new Date(),
  ) {
    this.#database = database;
  }

  /**
   * Stores a new task, or returns the pending or running one with the same spec. Safe under concurrency. Throws
   * `connector_not_found` when the connector has just been deleted.
   */
  async create(connectorId: string, task: Task): Promise<Task> {
    const key = specKey(task.spec);
    const createdAt = new Date(task.created_at);
    const fixed = { id: task.id, connectorId, spec: task.spec, specKey: key, createdAt };
    const values = { ...fixed, ...toRow(task) };
    // The unfinished task may end between the two statements: then the next insert succeeds.
    while (true) {
      const inserted = await this.#insert(values);
      if (inserted) {
        const created = read(inserted);
        this.watch?.taskChanged(connectorId, created);
        return created;
      }
      const open = and(
        eq(tasks.connectorId, connectorId),
        eq(tasks.specKey, key),
        inArray(tasks.state, unfinishedStates),
      );
      const found = await stored(this.#database.select().from(tasks).where(open).execute());
      if (found[0]) return read(found[0]);
    }
  }

  /** Null when an unfinished task with the same spec exists. */
  async #insert(values: typeof tasks.$inferInsert): Promise<Row | null> {
    try {
      const rows = await this.#database.insert(tasks).values(values).onConflictDoNothing().returning();
      return rows[0] ?? null;
    } catch (error) {
      if (sqlState(error) !== foreignKeyViolation) return stored(Promise.reject(error));
      throw connectorNotFound(values.connectorId);
    }
  }

  async find(connectorId: string, taskId: string): Promise<Task | null> {
    const rows = await stored(
      this.#database.select().from(tasks).where(oneTask(connectorId, taskId)).execute(),
    );
    return rows[0] ? read(rows[0]) : null;
  }

  /** Tables that were compared with their source. */
  async verified(connectorId: string): Promise<readonly VerifiedTable[]> {
    return await listVerified(this.#database, connectorId);
  }

  /** The connector begins again. Throws `lease_lost`. */
  async forgetVerified(connectorId: string, term: Term): Promise<void> {
    const forget = (database: Database) => forgetVerified(database, connectorId);
    await stored(fenced(this.#database, { connectorId, term }, forget));
  }

  /** The newest hundred, newest first. */
  async list(connectorId: string): Promise<Task[]> {
    const rows = await stored(
      this.#database
        .select()
        .from(tasks)
        .where(eq(tasks.connectorId, connectorId))
        .orderBy(desc(tasks.sequence))
        .limit(taskListBound)
        .execute(),
    );
    return rows.map(read);
  }

  /** The first hundred pending tasks: those that are due, oldest first, then those that wait for their next attempt, by its time. */
  async pending(connectorId: string, nowMs: number): Promise<Task[]> {
    const where = and(eq(tasks.connectorId, connectorId), eq(tasks.state, "Pending"));
    const now = new Date(nowMs).toISOString();
    const attemptToCome = sql`case when ${tasks.nextAttemptAt} > ${now}::timestamptz then ${tasks.nextAttemptAt} end nulls first`;
    const rows = await stored(
      this.#database
        .select()
        .from(tasks)
        .where(where)
        .orderBy(attemptToCome, asc(tasks.sequence))
        .limit(pendingBound)
        .execute(),
    );
    return rows.map(read);
  }

  /**
   * Changes one task: `decide` gets the locked record and returns its new state, or null to leave it. If `decide`
   * throws, nothing is changed. Returns the record afterwards; null: there is no such task. Throws `conflict` when the
   * task would become unfinished while an identical one is, `lease_lost` when `term` is no longer the connector's;
   * without `term` it is the API that asks, whoever runs the connector.
   */
  async change(
    connectorId: string,
    taskId: string,
    decide: (task: Task) => Task | null,
    term: Term = null,
  ): Promise<Task | null> {
    const changed = this.#database.transaction(async (transaction) => {
      await lockLease(transaction, { connectorId, term });
      const rows = await transaction.select().from(tasks).where(oneTask(connectorId, taskId)).for("update");
      if (!rows[0]) return null;
      const current = read(rows[0]);
      const next = decide(current);
      if (!next || next === current) return { task: current, isChanged: false };
      await transaction.update(tasks).set(toRow(next)).where(oneTask(connectorId, taskId));
      if (next.state === "Done") await recordVerified(transaction, connectorId, next, this.now());
      if (!unfinishedStates.includes(next.state)) await this.#ended(transaction, connectorId, next.state);
      return { task: next, isChanged: true };
    });
    const result = await stored(
      changed.catch((error: unknown) => Promise.reject(duplicateTask(error) ?? error)),
    );
    // Not before the commit: whoever hears of it may read it.
    if (result?.isChanged) this.watch?.taskChanged(connectorId, result.task);
    return result?.task ?? null;
  }

  async #ended(database: Database, connectorId: string, state: Task["state"]): Promise<void> {
    const key = `${state} ${connectorId}`;
    const count = (this.#sinceTrim.get(key) ?? trimEvery) + 1;
    this.#sinceTrim.set(key, count > trimEvery ? 1 : count);
    if (count <= trimEvery) return;
    const isSuch = and(eq(tasks.connectorId, connectorId), eq(tasks.state, state));
    // Whoever has one locked retries it, or trims as well: neither is waited for.
    await database.execute(sql`
      delete from ${tasks} where sequence in (
        select sequence from ${tasks} where ${isSuch} and sequence <= (
          select sequence from ${tasks} where ${isSuch} order by sequence desc offset ${endedBound} limit 1
        ) order by sequence limit ${mostTrimmed} for update skip locked)`);
  }

  /** Throws `lease_lost`. */
  async saveProgress(connectorId: string, taskId: string, progress: TaskProgress, term: Term): Promise<void> {
    const values = { rows: progress.rows, bytes: progress.bytes, estimatedRows: progress.estimated_rows };
    const where = oneTask(connectorId, taskId);
    const update = (database: Database) =>
      database.update(tasks).set(values).where(where).returning().execute();
    const rows = await stored(fenced(this.#database, { connectorId, term }, update));
    for (const row of rows) this.watch?.taskProgressed(row.connectorId, read(row));
  }

  /** Running → Pending, when a holder of the connector begins: whoever ran them is gone. Throws `lease_lost`. */
  async releaseRunning(connectorId: string, term: number): Promise<void> {
    const ofConnector = and(eq(tasks.connectorId, connectorId), isRunning);
    const update = (database: Database) =>
      database.update(tasks).set({ state: "Pending" }).where(ofConnector).execute();
    await stored(fenced(this.#database, { connectorId, term }, update));
  }

  /** The same for all connectors, where no other replica can run any. */
  async releaseAllRunning(): Promise<void> {
    await stored(this.#database.update(tasks).set({ state: "Pending" }).where(isRunning).execute());
  }

  /** How many tasks there are in each state, of the connectors that this instance holds; null: of all. */
  async countByState(holder: string | null): Promise<ReadonlyMap<Task["state"], number>> {
    const ofHolder = sql`select connector_id from ${leases} where holder = ${holder}::uuid`;
    const rows = await stored(
      this.#database
        .select({ state: tasks.state, count: sql<number>`count(*)::int` })
        .from(tasks)
        .where(holder === null ? undefined : sql`${tasks.connectorId} in (${ofHolder})`)
        .groupBy(tasks.state)
        .execute(),
    );
    return new Map(rows.map((row) => [row.state, row.count]));
  }
}

const isRunning = eq(tasks.state, "Running");

/** Only retrying a task that has ended can meet an identical one. */
function duplicateTask(error: unknown): MillraceError | null {
  if (sqlState(error) !== uniqueViolation) return null;
  return new MillraceError("conflict", "An identical task is pending or running: this one is not needed.");
}

/** What is no UUID is the id of no task. */
function oneTask(connectorId: string, taskId: string) {
  const isOne = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(taskId);
  return and(eq(tasks.connectorId, connectorId), isOne ? eq(tasks.id, taskId) : sql`false`);
}

/** Those of a task that may never have begun. */
const maybeUnbegun: readonly Task["state"][] = ["Pending", "Cancelled"];

function read(row: Row): Task {
  const started = row.rows > 0 || row.bytes > 0 || row.estimatedRows > 0 || !maybeUnbegun.includes(row.state);
  return {
    id: row.id,
    state: row.state,
    spec: row.spec,
    ...(row.reason === null ? {} : { reason: row.reason }),
    created_at: row.createdAt.toISOString(),
    attempt: row.attempt,
    ...(row.nextAttemptAt === null ? {} : { next_attempt_at: row.nextAttemptAt.toISOString() }),
    ...(row.result === null ? {} : { result: row.result }),
    ...(started ? { progress: { rows: row.rows, bytes: row.bytes, estimated_rows: row.estimatedRows } } : {}),
  };
}

function toRow(task: Task) {
  const { rows = 0, bytes = 0, estimated_rows: estimatedRows = 0 } = task.progress ?? {};
  return {
    state: task.state,
    reason: task.reason ?? null,
    attempt: task.attempt,
    nextAttemptAt: task.next_attempt_at === undefined ? null : new Date(task.next_attempt_at),
    rows,
    bytes,
    estimatedRows,
    result: task.result ?? null,
  };
}
