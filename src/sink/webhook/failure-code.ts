// The word of the system, of DNS or of the TLS library for what went wrong.

/** Never its message, which may hold an address or what was sent. */
export function failureCode(error: unknown): string {
  if (error instanceof Error && "code" in error && typeof error.code === "string") return error.code;
  return error instanceof Error ? error.name : "unknown";
}
