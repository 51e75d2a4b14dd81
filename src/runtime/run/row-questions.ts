// Questions to a worker for rows that are on their way. Who does not answer in time is not waited for.

import type { OpenRequest } from "../../connector/receipts.ts";

const withinMs = 2_000;

type Found = readonly OpenRequest[] | null;

export class RowQuestions {
  readonly #open = new Map<number, (found: Found) => void>();
  #last = 0;

  /** Null: there was no answer in time. */
  async ask(post: (questionId: number) => void): Promise<Found> {
    const id = ++this.#last;
    const answer = Promise.withResolvers<Found>();
    this.#open.set(id, answer.resolve);
    const timer = setTimeout(() => answer.resolve(null), withinMs);
    post(id);
    try {
      return await answer.promise;
    } finally {
      clearTimeout(timer);
      this.#open.delete(id);
    }
  }

  answered(id: number, found: Found): void {
    this.#open.get(id)?.(found);
  }
}
