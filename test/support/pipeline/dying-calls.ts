// Ends a run at one of the calls that it makes of its source or its sink: before the call, or when it has returned.

export class DyingCalls {
  #left = Number.POSITIVE_INFINITY;
  #die: () => void = () => {};

  /** `die` is called at the `calls`-th step from now: each call is two, its beginning and its end. */
  arm(calls: number, die: () => void): void {
    this.#left = calls;
    this.#die = die;
  }

  /** As `owner`, with every call counted, those of what it returns too. */
  watch<T extends object>(owner: T): T {
    return new Proxy(owner, {
      get: (_, name) => {
        const member: unknown = Reflect.get(owner, name, owner);
        // What a sink takes copies by, and what rows are compared by, is a part of it.
        const isPart = name === "copies" || name === "verification";
        if (isPart && typeof member === "object" && member !== null) return this.watch(member);
        if (typeof member !== "function") return member;
        return (...args: unknown[]) => {
          this.#step();
          return this.#watched(Reflect.apply(member, owner, args));
        };
      },
    });
  }

  #watched(result: unknown): unknown {
    if (!(result instanceof Promise)) return result;
    return result.then((value: unknown) => {
      this.#step();
      const isObject = typeof value === "object" && value !== null;
      const isStream = isObject && "acknowledge" in value;
      const isCopy = isObject && "settle" in value;
      return isStream || isCopy ? this.watch(value) : value;
    });
  }

  #step(): void {
    if (--this.#left !== 0) return;
    this.#die();
  }
}
