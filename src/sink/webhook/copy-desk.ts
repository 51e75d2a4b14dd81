// Takes what the line brings of copies: between two batches, and beside the stream.

import type { BesideCopies } from "./beside-copies.ts";
import type { CompiledTable } from "./compiled-table.ts";
import type { DeliveryState, FromDelivery, ToDelivery } from "./line-messages.ts";
import type { Delivering, TableCopies } from "./table-copies.ts";

export type CopyMessage = Extract<ToDelivery, { type: `copy.${string}` | `beside.${string}` }>;

export interface CopyDeskOptions {
  readonly copies: TableCopies;
  readonly besides: BesideCopies;
  readonly table: (handle: number) => CompiledTable;
  readonly begun: () => Delivering;
  readonly send: (message: FromDelivery) => void;
  readonly failed: (error: unknown) => void;
}

export class CopyDesk {
  constructor(private readonly options: CopyDeskOptions) {}

  /** Returns when the next message may be handled. */
  async handle(message: CopyMessage): Promise<void> {
    const { copies, besides, table, begun } = this.options;
    switch (message.type) {
      case "copy.divide":
        return this.#reply(message.id, { begun: begun().divided.begin(message.table, message.goesOn) });
      case "copy.begin":
        if (message.beside !== null) return this.#openBeside(message);
        await copies.begin(message, table(message.handle), begun());
        return this.#reply(message.id);
      case "copy.rows":
        return await this.#takeRows(message);
      case "copy.cancel":
        besides.cancel(message.copy);
        return copies.cancel(message.copy);
      case "copy.join":
        await copies.join(message.table, begun());
        return this.#reply(message.id);
      case "copy.end":
        return this.#end(message);
      case "beside.first": {
        const isBeside = await besides.expect(message.table, table(message.handle), begun());
        return this.#reply(message.id, { isBeside });
      }
      case "beside.begin":
        return this.#reply(message.id, besides.begin(message, table(message.handle), begun()));
      case "beside.settle": {
        const isSpoiled = besides.spoiledBy(message.beside) !== null;
        const settled = isSpoiled ? undefined : await besides.settle(message.beside, begun());
        const spoiledBy = besides.spoiledBy(message.beside);
        return this.#reply(message.id, { spoiledBy, ...(settled ? { settled } : {}) });
      }
      case "beside.end":
        return besides.end(message.beside, begun());
      default:
        message satisfies never;
    }
  }

  #openBeside(message: Extract<CopyMessage, { type: "copy.begin" }>): void {
    const { besides, begun } = this.options;
    this.#meanwhile(besides.open(message, begun()), () =>
      this.#reply(message.id, { spoiledBy: besides.spoiledBy(message.beside) }),
    );
  }

  async #takeRows({ copy, batch, bytes }: Extract<CopyMessage, { type: "copy.rows" }>): Promise<void> {
    const { copies, besides, send } = this.options;
    if (!besides.has(copy)) {
      await copies.take(copy, batch);
      return send({ type: "credit", bytes });
    }
    this.#meanwhile(besides.take(copy, batch), () => send({ type: "credit", bytes, isBeside: true }));
  }

  #end({ id, copy, beside, mark }: Extract<CopyMessage, { type: "copy.end" }>): void {
    const { copies, besides, begun } = this.options;
    const ended = beside === null ? copies.end(copy, mark, begun()) : besides.finish(copy, begun());
    this.#meanwhile(ended, () => this.#reply(id, { spoiledBy: besides.spoiledBy(beside) }));
  }

  /** Other copies and the stream go on meanwhile. */
  #meanwhile(work: Promise<void>, done: () => void): void {
    work.then(done).catch((error: unknown) => this.options.failed(error));
  }

  #reply(id: number, state: Partial<DeliveryState> | null = null): void {
    this.options.send({ type: "reply", id, state: state && { checkpoint: null, missing: [], ...state } });
  }
}
