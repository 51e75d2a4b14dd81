// What a run warns of while it goes on: one text of each topic, until that is over. What begins or ends of one topic leaves the
// others standing.

export class StandingWarnings {
  readonly #reasons = new Map<string, string>();

  /** Null: it is over. Returns whether that is news. */
  set(topic: string, reason: string | null): boolean {
    const isNews = this.#reasons.get(topic) !== (reason ?? undefined);
    if (reason === null) this.#reasons.delete(topic);
    else this.#reasons.set(topic, reason);
    return isNews;
  }

  /** All of them, in the order in which their topics came up; null: there is none. */
  get text(): string | null {
    return this.#reasons.size === 0 ? null : [...this.#reasons.values()].join(" ");
  }
}
