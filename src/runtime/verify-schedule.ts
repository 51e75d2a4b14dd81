// Asks for comparisons of tables with their source, as `limits.verify` of their connectors says: one table at a time, the one first that was not
// compared for longest.

import type { TaskService } from "../api/services.ts";
import { copiesInRounds } from "../connector/config/copies-in-rounds.ts";
import type { ConnectorConfig } from "../connector/connector.ts";
import type { TableStatus } from "../connector/table-status.ts";
import type { Task, TaskRequest } from "../connector/task.ts";
import { unfinishedStates } from "../connector/task-state.ts";
import type { VerifiedTable } from "../connector/verification.ts";
import type { Log } from "../log.ts";
import type { State } from "../state/open-state.ts";
import type { Statuses } from "./status/statuses.ts";

/** How often it looks whether a table is due, besides when a comparison has ended. */
const lookEveryMs = 60_000;
const hourMs = 3_600_000;

export interface VerifyScheduleContext {
  /** Connectors that this replica holds, in full form. `id`: that one alone. */
  readonly connectors: (id?: string) => Promise<readonly ConnectorConfig[]>;
  readonly tables: (connectorId: string) => Promise<readonly TableStatus[]>;
  readonly verified: (connectorId: string) => Promise<readonly VerifiedTable[]>;
  readonly unfinished: (connectorId: string) => Promise<readonly Task[]>;
  readonly create: (connectorId: string, request: TaskRequest) => Promise<unknown>;
  readonly log: Pick<Log, "warn">;
  readonly nowMs: () => number;
}

export class VerifySchedule implements AsyncDisposable {
  /** When a comparison was asked for last, by connector and table: one that fails is not asked for again at once. */
  readonly #askedMs = new Map<string, number>();
  #timer: Timer | undefined;
  #looking: Promise<void> = Promise.resolve();
  #isOver = false;

  constructor(private readonly context: VerifyScheduleContext) {}

  start(): void {
    this.#timer = setInterval(() => this.look(), lookEveryMs);
    this.#timer.unref();
  }

  /** Asks for what is due, of all connectors or of one: a comparison of it has ended. Never rejects. */
  look(id?: string): Promise<void> {
    this.#looking = this.#looking.then(() => this.#lookAtAll(id));
    return this.#looking;
  }

  async #lookAtAll(id?: string): Promise<void> {
    if (this.#isOver) return;
    const { connectors } = this.context;
    const found = await connectors(id).catch((error: unknown) => this.#warn(error, id));
    for (const connector of found ?? [])
      await this.#lookAt(connector).catch((error: unknown) => this.#warn(error, connector.id));
  }

  #warn(error: unknown, connector?: string): void {
    const text = "comparisons that are due could not be asked for; it is tried again";
    this.context.log.warn({ error, connector }, text);
  }

  async #lookAt({ id, limits, source, sink }: ConnectorConfig): Promise<void> {
    const everyMs = limits.verify.every_hours * hourMs;
    if (everyMs === 0 || !sink.postgres || copiesInRounds({ source })) return;
    const { tables, verified, unfinished, create, nowMs } = this.context;
    if ((await unfinished(id)).some(({ spec }) => spec.Verify)) return;
    const asked = (table: TableName) => this.#askedMs.get(keyOf(id, table)) ?? Number.NEGATIVE_INFINITY;
    const due = dueTable(await tables(id), await verified(id), asked, nowMs() - everyMs);
    if (due === null) return;
    this.#askedMs.set(keyOf(id, due), nowMs());
    await create(id, { Verify: { schema: due.schema, name: due.name } });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    this.#isOver = true;
    await this.#looking;
  }
}

type TableName = Pick<TableStatus, "schema" | "name">;

/** The streamed table that was not compared for longest, if that was before `beforeMs`; null: none is due. Pure. */
function dueTable(
  tables: readonly TableStatus[],
  verified: readonly VerifiedTable[],
  askedMs: (table: TableName) => number,
  beforeMs: number,
): TableName | null {
  const verifiedMs = new Map(verified.map((table) => [keyOf("", table), Date.parse(table.verified.at)]));
  const last = (table: TableName) =>
    Math.max(verifiedMs.get(keyOf("", table)) ?? Number.NEGATIVE_INFINITY, askedMs(table));
  const due = tables.filter((table) => table.state === "Streaming" && last(table) <= beforeMs);
  return due.reduce<TableName | null>(
    (first, table) => (first && last(first) <= last(table) ? first : table),
    null,
  );
}

function keyOf(connectorId: string, { schema, name }: TableName): string {
  return JSON.stringify([connectorId, schema, name]);
}

export interface VerifyScheduleParts {
  readonly state: State;
  readonly holds: (connectorId: string) => boolean;
  readonly statuses: Pick<Statuses, "tables">;
  readonly tasks: Pick<TaskService, "create">;
  readonly log: Pick<Log, "warn">;
}

/** Looks after the connectors that this replica holds, until it is disposed of. */
export function startVerifySchedule({
  state,
  holds,
  statuses,
  tasks,
  log,
}: VerifyScheduleParts): VerifySchedule {
  const schedule = new VerifySchedule({
    connectors: async (id) =>
      (id ? [await state.connectors.get(id)] : await state.connectors.list())
        .filter(({ id, config, stopped, deletion }) => {
          const isToRun = !stopped && !config.disabled && deletion === null;
          return isToRun && holds(id);
        })
        .map(({ config }) => config),
    tables: async (id) => statuses.tables(id, (await state.connectors.get(id)).runId),
    verified: (id) => state.tasks.verified(id),
    unfinished: async (id) =>
      (await state.tasks.list(id)).filter(({ state }) => unfinishedStates.includes(state)),
    create: (id, request) => tasks.create(id, request),
    log,
    nowMs: Date.now,
  });
  schedule.start();
  return schedule;
}
