// Checks the certificates and the key of a connection, so that what cannot work is refused with the request and not at the
// first handshake. Pure.

import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import type { Violation } from "../../errors/millrace-error.ts";
import type { PostgresConnectionRequest } from "./connection.ts";
import { iterationsOf, maxIterations } from "./encrypted-key.ts";

type Text = string | null;

/** The certificates and the key of a connection as PEM texts, and the fields that have them. */
export interface PemTexts {
  readonly root: Text;
  readonly cert: Text;
  readonly key: Text;
  /** Of an encrypted key; absent: there is no field for it. */
  readonly passphrase?: Text;
  readonly names: {
    readonly root: string;
    readonly cert: string;
    readonly key: string;
    readonly passphrase?: string;
  };
  /** What is in a file instead, and cannot be looked at. */
  readonly inFiles?: readonly ("cert" | "key")[];
}

/** What is wrong with those of a Postgres connection. To be called after secrets are filled. */
export function tlsProblems(
  connection: Pick<PostgresConnectionRequest, "ssl_cert" | "ssl_key" | "ssl_root_cert"> | undefined,
  path: string,
): Violation[] {
  const texts = {
    // An empty text is none: a variable of a file of connectors that is not set leaves it behind.
    cert: connection?.ssl_cert || null,
    key: connection?.ssl_key || null,
    root: connection?.ssl_root_cert || null,
    names: { root: "ssl_root_cert", cert: "ssl_cert", key: "ssl_key" },
  };
  return pemProblems(texts, path);
}

/** What is wrong, without quoting it. To be called after secrets are filled. */
export function pemProblems(texts: PemTexts, path: string): Violation[] {
  const { root, names } = texts;
  const problems: [string, string | null][] = [
    [names.root, root === null ? null : certificateProblem(root)],
    [names.cert, certProblem(texts)],
    [names.key, keyProblem(texts)],
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

function certProblem({ cert, key, names, inFiles = [] }: PemTexts): string | null {
  if (cert !== null) return certificateProblem(cert);
  if (key === null || inFiles.includes("cert")) return null;
  return `required with ${names.key}: the client certificate of that key, as PEM text (${stored}); or leave ${names.key} out`;
}

function keyProblem({ cert, key, passphrase = null, names, inFiles = [] }: PemTexts): string | null {
  if (key === null) {
    if (cert === null || inFiles.includes("key")) return null;
    return `required with ${names.cert}: the private key of that certificate, as PEM text (${stored}); or leave ${names.cert} out`;
  }
  if (!/-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----/.test(key)) return expected("a private key", "PRIVATE KEY");
  const isEncrypted = /-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: 4,ENCRYPTED/m.test(key);
  if (isEncrypted && names.passphrase === undefined) {
    return "the key is encrypted, which is not supported: give it without a passphrase (openssl pkey -in client.key -out plain.key)";
  }
  if (isEncrypted && passphrase === null)
    return `the key is encrypted: give its passphrase in ${names.passphrase}`;
  // Headers within it would be another encryption around it, which hides how often the passphrase is hashed.
  if (/-----BEGIN ENCRYPTED PRIVATE KEY-----\s+[\w-]+:/.test(key))
    return `the key cannot be read: ${damaged}`;
  if (isEncrypted && iterationsOf(key) > maxIterations) {
    return `the key's passphrase is hashed more than ${maxIterations} times, which takes too long: write it anew (openssl pkcs8 -topk8 -iter 100000 -in client.key -out new.key)`;
  }
  const parsed = parsedKey(key, isEncrypted ? passphrase : null);
  if (parsed === null && isEncrypted)
    return `the key cannot be decrypted with ${names.passphrase}, or ${damaged}`;
  if (parsed === null) return `the key cannot be read: ${damaged}, or it is not of a form that TLS uses`;
  const isOther = cert !== null && leafOf(cert)?.checkPrivateKey(parsed) === false;
  return isOther ? `this is not the key of ${names.cert}: give the two that belong together` : null;
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

function parsedKey(key: string, passphrase: Text): KeyObject | null {
  try {
    return createPrivateKey(passphrase === null ? key : { key, passphrase });
  } catch {
    return null;
  }
}
