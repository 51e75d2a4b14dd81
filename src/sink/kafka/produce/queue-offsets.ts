// Which offsets brokers gave to messages of one partition, by the number of the message. Nothing is remembered but for what somebody awaits.

interface Taken {
  readonly from: number;
  readonly to: number;
  /** Of the first one; NaN: the broker did not tell. */
  readonly offset: number;
}

export class QueueOffsets {
  /** What brokers have taken so far. */
  #messages = 0;
  #awaited = 0;
  #taken: Taken[] = [];
  #last: Taken | undefined;

  /** The offset of the message that is added next will be asked for. */
  await(): void {
    this.#awaited++;
  }

  /** A broker has taken the next ones. `offset`: of the first; negative: it did not tell. */
  took(count: number, offset: number): void {
    const from = this.#messages;
    this.#messages += count;
    if (this.#awaited === 0) return;
    this.#taken.push({ from, to: this.#messages, offset: offset < 0 ? Number.NaN : offset });
  }

  /** NaN: it is not known. */
  of(message: number): number {
    const has = ({ from, to }: Taken) => from <= message && message < to;
    if (!this.#last || !has(this.#last)) this.#last = this.#taken.find(has);
    return this.#last ? this.#last.offset + message - this.#last.from : Number.NaN;
  }

  /** So many of them are known, and nobody asks for one up to `last` any more. */
  forget(count: number, last: number): void {
    this.#awaited -= count;
    this.#last = undefined;
    this.#taken = this.#awaited === 0 ? [] : this.#taken.filter(({ to }) => to > last + 1);
  }
}
