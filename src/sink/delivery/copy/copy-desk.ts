// Takes what the line brings of copies: between two batches, and beside the stream.

import type { CompiledTable } from "../../format/compiled-table.ts";
import type { DeliveryState, FromDelivery, ToDelivery } from "../line/line-messages.ts";
import type { BesideCopies } from "./beside-copies.ts";
import type { Delivering, TableCopies } from "./table-copies.ts";
import type { WholeCopies } from "./whole-copies.ts";

export type CopyMessage = Extract<ToDelivery, { type: `copy.${string}` | `beside.${string}` }>;

export interface CopyDeskOptions {
  readonly copies: TableCopies;
  readonly besides: BesideCopies;
  readonly wholes: WholeCopies;
  readonly table: (handle: number) => CompiledTable;
  readonly begun: () => Delivering;
  readonly send: (message: FromDelivery) => void;
  readonly failed: (error: unknown) => void;
}

export class CopyDesk {
  constructor(private readonly options: CopyDeskOptions) {}

  /** Returns when the next message may be handled. */
  async handle(message: CopyMessage): Promise<void> {
    const { copies, besides, wholes, table, begun } = this.options;
    switch (message.type) {
      case "copy.divide":
        return this.#reply(message.id, { begun: begun().divided.begin(message.table, message.goesOn) });
      case "copy.begin":
        if (message.beside !== null) return this.#openBeside(message);
        await copies.begin(message, table(message.handle), begun());
        return this.#reply(message.id);
      case "copy.rows":
        return this.#takeRows(message);
      case "copy.cancel":
        besides.cancel(message.copy);
        wholes.cancel(message.copy);
        return copies.cancel(message.copy);
      case "copy.join":
        await copies.join(message.table, begun());
        return this.#reply(message.id);
      case "copy.end":
        return this.#end(message);
      case "beside.first": {
        const isWhole = await besides.expect(message.table, table(message.handle), begun());
        return this.#reply(message.id, { isBeside: true, isWhole });
      }
      case "beside.begin":
        return this.#begin(message);
      case "beside.point":
        return this.#reply(message.id, { isBeside: wholes.goBefore(message, begun()) });
      case "beside.spoil":
        return wholes.spoil(message.beside);
      case "beside.settle":
        return await this.#settle(message);
      case "beside.end":
        return this.#of(message.beside).end(message.beside, begun());
      default:
        message satisfies never;
    }
  }

  #begin(message: Extract<CopyMessage, { type: "beside.begin" }>): void {
    const { besides, wholes, table, begun } = this.options;
    const compiled = table(message.handle);
    const isWhole = besides.takesWhole(compiled, message.isFirst);
    const state = isWhole
      ? { isBeside: wholes.begin(message, compiled, begun()), isWhole }
      : besides.begin(message, compiled, begun());
    this.#reply(message.id, state);
  }

  async #settle({ id, beside }: Extract<CopyMessage, { type: "beside.settle" }>): Promise<void> {
    const of = this.#of(beside);
    const settled = of.spoiledBy(beside) === null ? await of.settle(beside, this.options.begun()) : null;
    this.#reply(id, { spoiledBy: of.spoiledBy(beside), ...(settled ? { settled } : {}) });
  }

  #openBeside(message: Extract<CopyMessage, { type: "copy.begin" }>): void {
    const { id, beside } = message;
    const of = this.#of(beside);
    this.#meanwhile(of.open(message, this.options.begun()), () =>
      this.#reply(id, { spoiledBy: of.spoiledBy(beside) }),
    );
  }

  #takeRows({ copy, isBeside, batch, bytes }: Extract<CopyMessage, { type: "copy.rows" }>): void {
    const { copies, besides, wholes, send } = this.options;
    const of = [wholes, besides].find((each) => each.hasRows(copy)) ?? copies;
    this.#meanwhile(of.take(copy, batch), () => send({ type: "credit", bytes, copy, isBeside }));
  }

  #end({ id, copy, beside, mark }: Extract<CopyMessage, { type: "copy.end" }>): void {
    const { copies, begun } = this.options;
    const of = this.#of(beside);
    const ended = beside === null ? copies.end(copy, mark, begun()) : of.finish(copy, begun());
    this.#meanwhile(ended, () => this.#reply(id, { spoiledBy: of.spoiledBy(beside) }));
  }

  /** Those that a copy beside the stream is one of. */
  #of(beside: number | null): BesideCopies | WholeCopies {
    const { besides, wholes } = this.options;
    return wholes.has(beside) ? wholes : besides;
  }

  /** Other copies and the stream go on meanwhile. */
  #meanwhile(work: Promise<void>, done: () => void): void {
    work.then(done).catch((error: unknown) => this.options.failed(error));
  }

  #reply(id: number, state: Partial<DeliveryState> | null = null): void {
    this.options.send({ type: "reply", id, state: state && { checkpoint: null, missing: [], ...state } });
  }
}
