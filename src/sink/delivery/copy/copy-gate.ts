// Requests of the stream that wait until a copy of their table is delivered. Of some tables nothing tells which of the copied rows the
// stream has brought since: such a copy goes as of one point, before all that the stream brings of the table from there on. That is
// cut into requests as if nothing waited, so that the same come again after a restart, and the checkpoint stays before it.

import type { Lsn } from "../../../change/lsn.ts";
import { zeroLsn } from "../../../change/lsn.ts";

export interface WaitingRequest {
  readonly bytes: number;
  /** It may go now. */
  send(): void;
  /** It goes nowhere: a copy brings what is in it. */
  drop(): void;
}

interface GatedTable {
  readonly name: string;
  /** The last change of the table that has come since it was watched. */
  last: Lsn;
  /** What was committed from here on waits; null: it is not known yet. */
  point: Lsn | null;
  /** To be called when the stream comes to the point; null: it has. */
  reached: (() => void) | null;
  readonly waiting: WaitingRequest[];
}

/** Bytes of bodies that may wait: more is not taken then. */
const defaultMostBytes = 32 * 1024 * 1024;

export class CopyGate {
  /** By the number of the copy. */
  readonly #tables = new Map<number, GatedTable>();
  #bytes = 0;
  #isOver = false;
  #waiters: (() => void)[] = [];

  constructor(private readonly mostBytes = defaultMostBytes) {}

  get isIdle(): boolean {
    return this.#tables.size === 0;
  }

  get isFull(): boolean {
    return this.#bytes >= this.mostBytes && !this.#isOver;
  }

  /** Resolves when more may wait, or nothing is delivered any more. */
  async ample(): Promise<void> {
    while (this.isFull) await new Promise<void>((resolve) => this.#waiters.push(resolve));
  }

  /** A copy of the table is to come: from here on it is kept in mind what the stream brings of it. */
  watch(copy: number, name: string): void {
    this.#tables.set(copy, { name, last: zeroLsn, point: null, reached: () => {}, waiting: [] });
  }

  /** The stream brings a change of the table. */
  see(name: string, commitLsn: Lsn): void {
    for (const table of this.#tables.values()) if (table.name === name) table.last = commitLsn;
  }

  /** The copy is as of this point. False: the stream has brought changes of its table from behind it. */
  close(copy: number, point: Lsn, reached: () => void): boolean {
    const table = this.#tables.get(copy);
    if (!table || table.last >= point) return false;
    table.point = point;
    table.reached = reached;
    return true;
  }

  /** Whether the stream comes to the point of a copy with what was committed at `lsn`. */
  isReachedBy(lsn: Lsn): boolean {
    return this.#comingTo(lsn).length > 0;
  }

  /** All that was committed before is in requests, and no request has both. */
  reach(lsn: Lsn): void {
    for (const table of this.#comingTo(lsn)) {
      table.reached?.();
      table.reached = null;
    }
  }

  /** Whether what is cut now of the table is to wait. */
  holds(name: string): boolean {
    return this.#closedOf(name) !== undefined;
  }

  put(name: string, request: WaitingRequest): void {
    this.#closedOf(name)?.waiting.push(request);
    this.#bytes += request.bytes;
  }

  /** The copy is delivered, or given up: what has waited goes, unless another copy of the table is on its way. */
  open(copy: number): void {
    const table = this.#tables.get(copy);
    for (const request of this.#take(copy)) {
      if (table && this.holds(table.name)) this.put(table.name, request);
      else request.send();
    }
  }

  /** The copy is given up, and another one will bring what has waited. */
  drop(copy: number): void {
    for (const request of this.#take(copy)) request.drop();
  }

  /** Nothing is delivered any more: nobody waits for that. */
  breakOff(): void {
    this.#isOver = true;
    this.#wake();
  }

  #comingTo(lsn: Lsn): readonly GatedTable[] {
    const tables = [...this.#tables.values()];
    return tables.filter(({ point, reached }) => reached !== null && point !== null && lsn >= point);
  }

  #closedOf(name: string): GatedTable | undefined {
    return this.#tables.values().find((table) => table.name === name && table.reached === null);
  }

  #take(copy: number): readonly WaitingRequest[] {
    const waiting = this.#tables.get(copy)?.waiting ?? [];
    this.#tables.delete(copy);
    for (const { bytes } of waiting) this.#bytes -= bytes;
    this.#wake();
    return waiting;
  }

  #wake(): void {
    for (const wake of this.#waiters.splice(0)) wake();
  }
}
