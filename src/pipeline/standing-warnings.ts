// The active warnings of a run: one text per topic, until it is over. The topics of the sink begin with "sink ".

export class StandingWarnings {
  readonly #reasons = new Map<string, string>();
  readonly #commands = new Map<string, readonly string[]>();

  /** Null: the warning is over. `commands`: SQL that would help. Returns whether something changed. */
  set(topic: string, reason: string | null, commands: readonly string[] = []): boolean {
    this.#commands.set(topic, reason === null ? [] : commands);
    const isNews = this.#reasons.get(topic) !== (reason ?? undefined);
    if (reason === null) this.#reasons.delete(topic);
    else this.#reasons.set(topic, reason);
    return isNews;
  }

  get commands(): readonly string[] {
    return [...this.#commands.values()].flat();
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
