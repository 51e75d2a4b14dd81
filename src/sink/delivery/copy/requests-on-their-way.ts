// The requests of a copy that are on their way, and what is delivered of it so far.

import type { OutgoingRequest } from "../stream/outgoing-request.ts";
import type { TableCopyOptions } from "./table-copy.ts";
import type { UndeliveredRows } from "./undelivered-rows.ts";

export class RequestsOnTheirWay {
  #pending = 0;
  #rows = 0;
  #bytes = 0;
  #waiters: (() => void)[] = [];

  /** `isBeside`: they have the share of the scheduler beside the stream's. */
  constructor(
    private readonly room: UndeliveredRows,
    private readonly options: Pick<TableCopyOptions, "scheduler" | "progress">,
    private readonly isBeside: boolean,
  ) {}

  /** Rows that are delivered. */
  get rows(): number {
    return this.#rows;
  }

  submit(request: OutgoingRequest): void {
    this.#pending++;
    this.room.sent();
    const delivered = () => {
      this.#pending--;
      this.#rows += request.rows;
      this.#bytes += request.body.length;
      this.options.progress(this.#rows, this.#bytes);
      this.room.delivered(request.rows);
      if (this.#pending === 0) for (const wake of this.#waiters.splice(0)) wake();
    };
    this.options.scheduler.submit(request, delivered, false, this.isBeside);
  }

  /** Resolves when none is on its way. */
  async delivered(): Promise<void> {
    while (this.#pending > 0) await new Promise<void>((resolve) => this.#waiters.push(resolve));
  }
}
