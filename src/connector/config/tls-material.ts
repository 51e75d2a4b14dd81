// Checks the certificates and the key of a Postgres connection, so that what cannot work is refused with the request and
// not at the first handshake. Pure.

import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import type { Violation } from "../../errors/millrace-error.ts";
import type { PostgresConnectionRequest } from "./connection.ts";

type TlsMaterial = Pick<PostgresConnectionRequest, "ssl_cert" | "ssl_key" | "ssl_root_cert">;

/** What is wrong, without quoting it. To be called after secrets are filled. */
export function tlsProblems(connection: TlsMaterial | undefined, path: string): Violation[] {
  // An empty text is none: a variable of a file of connectors that is not set leaves it behind.
  const cert = connection?.ssl_cert || null;
  const key = connection?.ssl_key || null;
  const root = connection?.ssl_root_cert || null;
  const problems: [string, string | null][] = [
    ["ssl_root_cert", root === null ? null : certificateProblem(root)],
    ["ssl_cert", certProblem(cert, key)],
    ["ssl_key", keyProblem(cert, key)],
  ];
  return problems.flatMap(([name, message]) =>
    message === null ? [] : [{ path: `${path}/${name}`, message }],
  );
}

const expected = (what: string, label: string) =>
  `expected ${what} as PEM text, from -----BEGIN ${label}----- to -----END ${label}-----: the content of its file, not the path. ` +
  "Without one, leave the field out";
const stored = '"***" keeps the stored one';
const damaged = "its text is not complete, or was altered";

type Text = string | null;

function certProblem(cert: Text, key: Text): string | null {
  if (cert !== null) return certificateProblem(cert);
  if (key === null) return null;
  return `required with ssl_key: the client certificate of that key, as PEM text (${stored}); or leave ssl_key out`;
}

function keyProblem(cert: Text, key: Text): string | null {
  if (key === null) {
    if (cert === null) return null;
    return `required with ssl_cert: the private key of that certificate, as PEM text (${stored}); or leave ssl_cert out`;
  }
  if (!/-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----/.test(key)) return expected("a private key", "PRIVATE KEY");
  if (/-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: 4,ENCRYPTED/m.test(key)) {
    return "the key is encrypted, which is not supported: give it without a passphrase (openssl pkey -in client.key -out plain.key)";
  }
  const parsed = parsedKey(key);
  if (parsed === null) return `the key cannot be read: ${damaged}, or it is not of a form that TLS uses`;
  const isOther = cert !== null && leafOf(cert)?.checkPrivateKey(parsed) === false;
  return isOther ? "this is not the key of ssl_cert: give the two that belong together" : null;
}

/** One certificate or more. Text between them is allowed, as some tools write it. */
function certificateProblem(text: string): string | null {
  const found = certificates(text);
  if (found.length === 0) return expected("a certificate", "CERTIFICATE");
  const at = found.findIndex((each) => parsedCertificate(each) === null);
  if (at < 0) return null;
  return `certificate ${at + 1} of ${found.length} cannot be read: ${damaged}`;
}

function certificates(text: string): readonly string[] {
  return text.match(/-----BEGIN ((?:X509 |TRUSTED )?CERTIFICATE)-----[\s\S]*?(?:-----END \1-----|$)/g) ?? [];
}

/** The one that a key belongs to. */
function leafOf(text: string): X509Certificate | null {
  return parsedCertificate(certificates(text)[0] ?? "");
}

function parsedCertificate(text: string): X509Certificate | null {
  try {
    return new X509Certificate(text);
  } catch {
    return null;
  }
}

function parsedKey(text: string): KeyObject | null {
  try {
    return createPrivateKey(text);
  } catch {
    return null;
  }
}
