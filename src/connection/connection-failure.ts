// What it means when a connection to Postgres fails, without a word of the server's own: by the codes and messages of node:net, node:tls and pg.

import type { ErrorCode } from "../errors/error-codes.ts";

/** The side of a connector that a server is on. It selects the error codes. */
export type PostgresSide = "source" | "sink";

export interface Meaning {
  readonly code: ErrorCode;
  readonly text: string;
}

interface ConnectionError {
  readonly code: string;
  readonly message: string;
}

const unreachable: Readonly<Record<string, string>> = {
  ECONNREFUSED:
    "Nothing listens at that host and port (ECONNREFUSED): see that the server is started, and that the port is right.",
  ENOTFOUND: "The host name does not resolve.",
  EAI_AGAIN: "The host name does not resolve at the moment.",
  EHOSTUNREACH: "There is no route to the host.",
  ENETUNREACH: "There is no route to the host's network.",
  EACCES: "The operating system forbids the connection.",
  ENOENT: "There is no socket at that path.",
};

/** Of an error that is no MillraceError, and has no SQLSTATE. */
export function meaningOfConnection({ code, message }: ConnectionError, side: PostgresSide): Meaning {
  const known = unreachable[code];
  if (known) return { code: `${side}_unreachable`, text: known };
  if (code === "ETIMEDOUT" || /timeout expired|timed out/i.test(message)) return timedOut(side);
  if (/SASL|SCRAM|password must be/i.test(message)) {
    return { code: `${side}_authentication_failed`, text: loginText(message) };
  }
  if (/Unknown authenticationOk message type (2|7|9)$/.test(message)) {
    return { code: `${side}_authentication_failed`, text: asksForKerberos };
  }
  if (isForeignProtocol(message)) return { code: `${side}_unreachable`, text: notPostgres };
  if (isTlsProblem(code, message)) return { code: `${side}_unreachable`, text: tlsText(code, message) };
  if (isLost(code, message)) {
    return { code: `${side}_connection_lost`, text: "The connection to the server was lost." };
  }
  return { code: "internal", text: `Unexpected failure: ${message}` };
}

/** https://www.postgresql.org/docs/current/protocol-message-formats.html AuthenticationKerberosV5, AuthenticationGSS, AuthenticationSSPI. */
const asksForKerberos =
  "The server asks for Kerberos (GSSAPI or SSPI), which millrace does not speak. Give its role a line of its own in " +
  "pg_hba.conf, before that one: host <database> <role> <address> scram-sha-256";

const notPostgres = "What answers there does not speak Postgres' protocol: check host and port.";

/** As pg says it of a message that it does not know, or that ends too soon. */
function isForeignProtocol(message: string): boolean {
  return /received invalid (response|message)/.test(message);
}

/** Of a login that the client gave up. A server that refuses a password says so itself. */
function loginText(message: string): string {
  if (/password must be/i.test(message))
    return "The server asks for a password, and the connection has none.";
  return `The login failed: ${message}.`;
}

function timedOut(side: PostgresSide): Meaning {
  const code = side === "source" ? "source_timeout" : "sink_unreachable";
  return { code, text: "The server did not answer in time: a firewall may drop the packets." };
}

function isLost(code: string, message: string): boolean {
  return (
    code === "ECONNRESET" ||
    code === "EPIPE" ||
    code === "ERR_SOCKET_CLOSED" ||
    code === "ERR_STREAM_DESTROYED" ||
    /connection terminated|not queryable|connection.*closed|socket.*closed|premature close/i.test(message)
  );
}

export function isTlsProblem(code: string, message: string): boolean {
  return (
    /^(ERR_TLS|ERR_SSL|EPROTO|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_|HOSTNAME_MISMATCH)/.test(code) ||
    /SSL|TLS|certificate/i.test(message)
  );
}

function tlsText(code: string, message: string): string {
  if (/does not support SSL/.test(message)) {
    return "The server does not offer TLS, and ssl_mode asks for it.";
  }
  if (/ALTNAME|HOSTNAME/.test(code) || /altnames|hostname/i.test(message)) {
    return "The server's certificate is for another host name.";
  }
  if (/EXPIRED/.test(code) || /expired/i.test(message)) return "The server's certificate has expired.";
  if (/SELF_SIGNED|UNABLE_TO|DEPTH_ZERO/.test(code) || /self.signed|unable to/i.test(message)) {
    return "The server's certificate is not signed by a root that is trusted: set ssl_root_cert.";
  }
  return "The TLS handshake failed.";
}
