// The error code of the system, of DNS or of the TLS library.

/** Never the message, which may contain an address or what was sent. */
export function failureCode(error: unknown): string {
  if (error instanceof Error && "code" in error && typeof error.code === "string") return error.code;
  return error instanceof Error ? error.name : "unknown";
}
