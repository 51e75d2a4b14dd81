// The active warnings of a run: one text per topic, until it is over. The topics of the sink begin with "sink ".

export class StandingWarnings {
  readonly #warnings = new Map<string, { readonly reason: string; readonly commands: readonly string[] }>();

  /** Null: the warning is over. `commands`: SQL that would help. Returns whether something changed. */
  set(topic: string, reason: string | null, commands: readonly string[] = []): boolean {
    const isNews = this.#warnings.get(topic)?.reason !== (reason ?? undefined);
    if (reason === null) this.#warnings.delete(topic);
    else this.#warnings.set(topic, { reason, commands });
    return isNews;
  }

  get commands(): readonly string[] {
    return [...this.#warnings.values()].flatMap(({ commands }) => commands);
  }

  /** Whether all of them are about the sink. */
  get areOfSink(): boolean {
    return this.#warnings.size > 0 && this.#warnings.keys().every((topic) => topic.startsWith("sink "));
  }

  /** All warnings, in the order in which their topics appeared; null: there is none. */
  get text(): string | null {
    if (this.#warnings.size === 0) return null;
    return [...this.#warnings.values()].map(({ reason }) => reason).join(" ");
  }
}
