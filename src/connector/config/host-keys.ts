// The host keys by which a tunnel knows its SSH servers: public keys as in a `known_hosts` file without the host, or
// fingerprints. Pure; src/connection compares them with what a server presents.
// https://man.openbsd.org/sshd#SSH_KNOWN_HOSTS_FILE_FORMAT

import { createHash } from "node:crypto";

export interface HostKey {
  /** `SHA256:…`, as `ssh-keygen -l` prints it. */
  readonly fingerprint: string;
  /** `ssh-ed25519`, …; null: the entry is a fingerprint, which does not tell it. */
  readonly type: string | null;
}

/** The signature algorithms of each type of key, in the order in which they are asked for. */
const algorithms: Readonly<Record<string, readonly string[]>> = {
  "ssh-ed25519": ["ssh-ed25519"],
  "ecdsa-sha2-nistp256": ["ecdsa-sha2-nistp256"],
  "ecdsa-sha2-nistp384": ["ecdsa-sha2-nistp384"],
  "ecdsa-sha2-nistp521": ["ecdsa-sha2-nistp521"],
  "ssh-rsa": ["rsa-sha2-512", "rsa-sha2-256", "ssh-rsa"],
};

const expected =
  'expected a public key such as "ssh-ed25519 AAAA…", or a fingerprint "SHA256:…" as ssh-keygen -l prints it';

/** Returns what is wrong with an entry, and what to write instead; null: nothing. It repeats nothing of the entry. */
export function hostKeyProblem(entry: string): string | null {
  const parsed = parse(entry);
  return typeof parsed === "string" ? parsed : null;
}

/** Leaves out entries that have a problem. */
export function hostKeysOf(entries: readonly string[]): readonly HostKey[] {
  return entries.map(parse).filter((parsed) => typeof parsed !== "string");
}

/** The fingerprint of a public key in the binary form that a server presents. */
export function hostKeyFingerprint(key: Uint8Array): string {
  return `SHA256:${createHash("sha256").update(key).digest("base64").replace(/=+$/, "")}`;
}

/** The type of a public key in binary form; null: it does not begin with one. */
export function hostKeyType(key: Uint8Array): string | null {
  const [type] = fields(key) ?? [];
  return type === undefined ? null : Buffer.from(type).toString("latin1");
}

/**
 * The signature algorithms to ask a server for. A server may have keys of several types, and presents the one that is
 * asked for first: so those of the expected types come first.
 */
export function hostKeyAlgorithms(keys: readonly HostKey[]): string[] {
  const wanted = keys.flatMap(({ type }) => algorithms[type ?? ""] ?? []);
  return [...new Set([...wanted, ...Object.values(algorithms).flat()])];
}

function parse(entry: string): HostKey | string {
  const [first = "", second = "", ...rest] = entry.trim().split(/\s+/);
  if (first.startsWith("SHA256:")) return parseFingerprint(first, second);
  if (first.startsWith("-----BEGIN")) return `a PEM text is no host key: ${expected}`;
  if (/^MD5:|^([0-9a-f]{2}:){15}/i.test(first)) return `MD5 fingerprints are not supported: ${expected}`;
  if (/^\d+$/.test(first) && second.startsWith("SHA256:"))
    return 'leave out everything but the fingerprint: "SHA256:…"';
  if (first.startsWith("@")) return `marked lines are not supported: ${expected}`;
  if (algorithms[first]) return parseKey(first, second);
  if (algorithms[second] && rest.length > 0) return 'leave out the host name: "ssh-ed25519 AAAA…"';
  if (/^(ssh|ecdsa|sk-)/.test(first))
    return `keys of this type are not supported: expected ${Object.keys(algorithms).join(", ")}, or a fingerprint`;
  return expected;
}

function parseFingerprint(text: string, rest: string): HostKey | string {
  const match = /^(SHA256:[A-Za-z0-9+/]{43})=?$/.exec(text);
  if (!match || rest !== "") return '"SHA256:" is to be followed by 43 characters, and nothing else';
  return { fingerprint: match[1] ?? "", type: null };
}

function parseKey(type: string, text: string): HostKey | string {
  const key = Buffer.from(text, "base64");
  const isBase64 = key.toString("base64").replace(/=+$/, "") === text.replace(/=+$/, "");
  if (!isBase64 || fields(key)?.length !== fieldCounts[type] || hostKeyType(key) !== type) {
    return `the key is cut off or damaged: expected the whole line, such as "${type} AAAA…"`;
  }
  return { fingerprint: hostKeyFingerprint(key), type };
}

/** How many fields a key of the type has, the type among them: https://www.rfc-editor.org/rfc/rfc4253#section-6.6 */
const fieldCounts: Readonly<Record<string, number>> = {
  "ssh-ed25519": 2,
  "ecdsa-sha2-nistp256": 3,
  "ecdsa-sha2-nistp384": 3,
  "ecdsa-sha2-nistp521": 3,
  "ssh-rsa": 3,
};

/** The length-prefixed fields of a binary key; null: it does not end with one. */
function fields(key: Uint8Array): readonly Uint8Array[] | null {
  const view = new DataView(key.buffer, key.byteOffset, key.byteLength);
  const found: Uint8Array[] = [];
  let at = 0;
  while (at < key.byteLength) {
    if (at + 4 > key.byteLength) return null;
    const end = at + 4 + view.getUint32(at);
    if (end > key.byteLength) return null;
    found.push(key.subarray(at + 4, end));
    at = end;
  }
  return found;
}
