// Why a connection through an SSH server does not come about, or is no more. What that means for a source or a sink is in
// postgres-failure.ts.

/**
 * `refused`: no SSH server takes the key, and another attempt will not help. `unreachable`: an SSH server, or from there the
 * database, is not to be reached. `lost`: it was there.
 */
export type TunnelFailureKind = "refused" | "unreachable" | "lost";

/** Its message names no host, no user and nothing of the key. */
export class TunnelFailure extends Error {
  override readonly name = "TunnelFailure";

  constructor(
    readonly kind: TunnelFailureKind,
    message: string,
  ) {
    super(message);
  }
}

/** What to say when all SSH servers were tried in vain. One that may come back is worth another attempt. */
export function worstOf(failures: readonly TunnelFailure[]): TunnelFailure {
  const kind = failures.every((failure) => failure.kind === "refused") ? "refused" : "unreachable";
  const [first, ...others] = [...new Set(failures.map(({ message }) => message))];
  const count = failures.length > 1 ? `None of ${failures.length} SSH servers can be used. ` : "";
  return new TunnelFailure(kind, `${count}${[first, ...others].join(" ")}`);
}
