// What the error code of a request that got no answer means for people. Pure.

const meanings: Readonly<Record<string, (at: string) => string>> = {
  ECONNREFUSED: (at) =>
    `nothing listens at ${at} (ECONNREFUSED): see that the server is started, and that the port is right`,
  ENOTFOUND: (at) => `the host name of ${at} does not resolve (ENOTFOUND): see that it is spelled right`,
  EAI_AGAIN: (at) => `the host name of ${at} does not resolve at the moment (EAI_AGAIN)`,
  EHOSTUNREACH: (at) => `there is no route to ${at} (EHOSTUNREACH)`,
  ENETUNREACH: (at) => `there is no route to the network of ${at} (ENETUNREACH)`,
  ECONNRESET: (at) => `${at} broke the connection off before it answered (ECONNRESET)`,
  EPIPE: (at) => `${at} broke the connection off before it answered (EPIPE)`,
  CERT_HAS_EXPIRED: (at) => `the certificate of ${at} has expired (CERT_HAS_EXPIRED)`,
  ERR_TLS_CERT_ALTNAME_INVALID: (at) =>
    `the certificate of ${at} is for another host name (ERR_TLS_CERT_ALTNAME_INVALID)`,
};

/** The code is in it, to look it up. `at`: host and port as they were given, and nothing else of an address, which may have a secret. */
export function failureWords(code: string, at: string): string {
  return meanings[code]?.(at) ?? `the request to ${at} failed: ${code}`;
}
