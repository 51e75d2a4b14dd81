// The active warnings of a run: one text per topic, until it is over. The topics of the sink begin with "sink ".

export class StandingWarnings {
  readonly #reasons = new Map<string, string>();

  /** Null: the warning is over. Returns whether something changed. */
  set(topic: string, reason: string | null): boolean {
    const isNews = this.#reasons.get(topic) !== (reason ?? undefined);
    if (reason === null) this.#reasons.delete(topic);
    else this.#reasons.set(topic, reason);
    return isNews;
  }

  /** Whether all of them are about the sink. */
  get areOfSink(): boolean {
    return this.#reasons.size > 0 && [...this.#reasons.keys()].every((topic) => topic.startsWith("sink "));
  }

  /** All warnings, in the order in which their topics appeared; null: there is none. */
  get text(): string | null {
    return this.#reasons.size === 0 ? null : [...this.#reasons.values()].join(" ");
  }
}
