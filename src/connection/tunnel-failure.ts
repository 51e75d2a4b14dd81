// Why a connection through an SSH server failed or broke. What that means for a source or a sink is in
// postgres-failure.ts.

/**
 * `refused`: no SSH server accepts the key, or the server is not the expected one. Another attempt will not help. `unreachable`: an SSH server cannot be
 * reached, or cannot reach the database. `lost`: an open tunnel broke.
 */
export type TunnelFailureKind = "refused" | "unreachable" | "lost";

/** Its message names no host and no user, and quotes nothing of the key. */
export class TunnelFailure extends Error {
  override readonly name = "TunnelFailure";

  constructor(
    readonly kind: TunnelFailureKind,
    message: string,
  ) {
    super(message);
  }
}

/** The failure to report when every SSH server failed. It is transient if any of them may come back. */
export function worstOf(failures: readonly TunnelFailure[]): TunnelFailure {
  const kind = failures.every((failure) => failure.kind === "refused") ? "refused" : "unreachable";
  const [first, ...others] = [...new Set(failures.map(({ message }) => message))];
  const count = failures.length > 1 ? `None of ${failures.length} SSH servers can be used. ` : "";
  return new TunnelFailure(kind, `${count}${[first, ...others].join(" ")}`);
}
