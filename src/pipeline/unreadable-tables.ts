// Tables that could not be copied because the source does not let them be read, or the sink has them locked. Each is tried again with backoff,
// while the others go on.

import { qualifiedName, type TableShape } from "../change/relation.ts";
import type { ErrorCode } from "../errors/error-codes.ts";
import { MillraceError } from "../errors/millrace-error.ts";
import type { UnreadableTable } from "../sink/sink-events.ts";

/** Errors of one table. Other errors concern the source as a whole and end the run. */
const ofOneTable: ReadonlySet<ErrorCode> = new Set([
  "source_permission_denied",
  "table_changed",
  "table_locked",
  "table_unavailable",
  "table_unreadable",
]);

/** How many tables an error names. */
const maxNamed = 5;

/** How long a table waits for its next attempt. The time doubles with each failure. */
export interface RetryPace {
  readonly againMs: number;
  readonly mostMs: number;
  /** For an altered table: its new shape only has to be read. It doubles thrice at most, as a table may be truncated all the time. */
  readonly changedAgainMs: number;
}

const defaultRetryPace: RetryPace = { againMs: 5_000, mostMs: 60_000, changedAgainMs: 250 };

interface Entry {
  readonly table: TableShape;
  readonly error: MillraceError;
  readonly attempts: number;
  /** When to check whether it can be read; null: it can, as far as is known. */
  readonly dueAtMs: number | null;
}

/** For people: why the table is unreadable. */
export function unreadableReason({ message }: MillraceError): string {
  return `It could not be copied, and is tried again: ${message}`;
}

export class UnreadableTables implements Disposable {
  readonly #entries = new Map<number, Entry>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #listener: (() => void) | null = null;

  constructor(
    private readonly pace: RetryPace = defaultRetryPace,
    /** Milliseconds of a clock that never goes back. */
    private readonly nowMs: () => number = () => performance.now(),
  ) {}

  /** Whether a read failure concerns the table alone. */
  static isOfOneTable(error: MillraceError): boolean {
    return ofOneTable.has(error.code);
  }

  failed(table: TableShape, error: MillraceError): void {
    const attempts = (this.#entries.get(table.relation.id)?.attempts ?? 0) + 1;
    const isChanged = error.code === "table_changed";
    const firstMs = isChanged ? this.pace.changedAgainMs : this.pace.againMs;
    const waitMs = Math.min(this.pace.mostMs, firstMs * 2 ** Math.min(attempts - 1, isChanged ? 3 : 20));
    this.#entries.set(table.relation.id, { table, error, attempts, dueAtMs: this.nowMs() + waitMs });
    this.#arm();
  }

  copied({ relation }: TableShape): void {
    this.#entries.delete(relation.id);
  }

  /** Forgets tables that are not among `tables`. Returns the others, as they are now. */
  among(tables: readonly TableShape[]): readonly UnreadableTable[] {
    const ids = new Set(tables.map(({ relation }) => relation.id));
    for (const id of this.#entries.keys()) if (!ids.has(id)) this.#entries.delete(id);
    return tables.flatMap((table) => {
      const entry = this.#entries.get(table.relation.id);
      if (!entry) return [];
      return [{ table, reason: unreadableReason(entry.error), isDue: entry.dueAtMs === null }];
    });
  }

  /** Its copy may be tried again now. */
  canBeRead({ relation }: TableShape): void {
    const entry = this.#entries.get(relation.id);
    if (entry) this.#entries.set(relation.id, { ...entry, dueAtMs: null });
    this.#arm();
  }

  due(): readonly { readonly table: TableShape; readonly error: MillraceError }[] {
    const now = this.nowMs();
    return [...this.#entries.values()].filter(({ dueAtMs }) => dueAtMs !== null && dueAtMs <= now);
  }

  /** Failed attempts of the table that has failed most often. */
  get attempts(): number {
    return Math.max(0, ...[...this.#entries.values()].map(({ attempts }) => attempts));
  }

  has({ relation }: TableShape): boolean {
    return this.#entries.has(relation.id);
  }

  /** Why the table cannot be read, while it waits for another attempt; null: it may be read, as far as is known. */
  waitingFor({ relation }: TableShape): MillraceError | null {
    const entry = this.#entries.get(relation.id);
    return entry && entry.dueAtMs !== null ? entry.error : null;
  }

  get isEmpty(): boolean {
    return this.#entries.size === 0;
  }

  /** The error of a run that cannot go on without these tables. */
  asError(): MillraceError {
    const entries = [...this.#entries.values()];
    const worst = entries.find(({ error }) => error.retry === "permanent") ?? entries[0];
    const reasons = entries.map(({ table, error }) => `${qualifiedName(table.relation)}: ${error.message}`);
    return new MillraceError(
      worst?.error.code ?? "table_unreadable",
      `${reasons.length} of the tables could not be copied; the others were. ${reasons.slice(0, maxNamed).join(" ")}`,
    );
  }

  /** Calls `listener` whenever a table is due; null: nobody listens any more. */
  onDue(listener: (() => void) | null): void {
    this.#listener = listener;
    this.#arm();
  }

  [Symbol.dispose](): void {
    this.onDue(null);
  }

  #arm(): void {
    clearTimeout(this.#timer);
    const times = [...this.#entries.values()].flatMap(({ dueAtMs }) => dueAtMs ?? []);
    if (this.#listener === null || times.length === 0) return;
    const firstMs = Math.min(...times);
    // A timer may fire a little before its time by another clock.
    const fire = () => (this.due().length > 0 ? this.#listener?.() : this.#arm());
    this.#timer = setTimeout(fire, Math.max(1, Math.ceil(firstMs - this.nowMs())));
  }
}
