// In which pieces the stream waits for what a copy beside it comes to: each takes about a tenth of a second. What is to be written was
// listed beside the stream; where nobody could, it is listed in pieces as well, a few pages of the copied rows at a time.

import type { Client } from "pg";
import {
  type ListedPages,
  listRows,
  type Mending,
  mendAllRows,
  mendRows,
  type RowTies,
  readRowTies,
} from "./mend-list.ts";

const pieceMs = 100;
const firstRows = 500;
const firstPages = 64;

export class MendPieces {
  #ties: RowTies | null = null;
  #listed = 0;
  /** Rows of the list that are written. */
  #mended = 0;
  /** Nothing in the list takes the place of a row, or goes. */
  #areMissing = false;
  #rows = firstRows;
  #pages = firstPages;
  /** What is to be listed next; null: all is listed. */
  #next: Pick<ListedPages, "of" | "from"> | null;

  constructor(isListedInPieces: boolean) {
    this.#next = isListedInPieces ? { of: "copied", from: 0 } : null;
  }

  /** In the open transaction, beside the stream. */
  async listAll(client: Client, mending: Mending): Promise<void> {
    this.#ties = await readRowTies(client, mending);
    await this.#list(client, mending, null);
  }

  /** In the open transaction, between two batches: lists or writes a piece. Returns false where nothing is left. */
  async next(client: Client, mending: Mending): Promise<boolean> {
    if (this.#mended < this.#listed) await this.#write(client, mending);
    else if (this.#next) await this.#listNext(client, mending, this.#next);
    else return false;
    return true;
  }

  async #write(client: Client, mending: Mending): Promise<void> {
    const { target } = mending;
    // The stream does not wait for whoever holds it.
    await client.query(`lock table ${target.ownRows} in row exclusive mode nowait`);
    const ties = this.#ties ?? { areApart: false, areReferred: false };
    // Rows that are new do not take values from each other.
    const isDivisible = !ties.areReferred && (!ties.areApart || this.#areMissing);
    const to = isDivisible ? Math.min(this.#listed, this.#mended + this.#rows) : this.#listed;
    const begunAt = performance.now();
    if (ties.areApart && !this.#areMissing && !target.isReferred)
      await mendAllRows(client, mending, this.#listed);
    else await mendRows(client, mending, this.#mended, to, ties);
    this.#rows = paced(this.#rows, performance.now() - begunAt);
    this.#mended = to;
  }

  async #listNext(client: Client, mending: Mending, { of, from }: Pick<ListedPages, "of" | "from">) {
    this.#ties ??= await readRowTies(client, mending);
    const isWhole =
      this.#ties.areApart || this.#ties.areReferred || !mending.target.ownRows.startsWith("only ");
    if (isWhole) {
      await this.#list(client, mending, null);
      this.#next = null;
      return;
    }
    const begunAt = performance.now();
    const pages = { of, from, to: from + this.#pages };
    const isMore = await this.#list(client, mending, pages);
    this.#pages = paced(this.#pages, performance.now() - begunAt);
    const isLast = of === "target" || !mending.replaces;
    this.#next = isMore ? { of, from: pages.to } : isLast ? null : { of: "target", from: 0 };
  }

  /** Returns whether there are more pages. */
  async #list(client: Client, mending: Mending, pages: ListedPages | null): Promise<boolean> {
    const { rows, areMissing, isMore } = await listRows(client, mending, pages);
    this.#listed = rows;
    this.#mended = 0;
    this.#areMissing = areMissing;
    return isMore;
  }
}

/** How many next, behind so many that took so long. */
function paced(count: number, tookMs: number): number {
  if (tookMs < pieceMs / 2) return count * 2;
  return tookMs > pieceMs ? Math.max(1, Math.floor(count / 2)) : count;
}
