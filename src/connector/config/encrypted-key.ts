// How long it takes to decrypt a private key: its passphrase is hashed as often as the key itself says, and that holds the thread. Pure.

/** About a third of a second. Tools write 2,048 to 600,000. */
export const maxIterations = 1_000_000;

/** Levels of an algorithm's parameters. Deeper ones are nobody's. */
const maxDepth = 8;
/** Constructed, or a number: https://www.itu.int/rec/T-REC-X.690 sections 8.1.2 and 8.3. */
const constructed = 0x20;
const integer = 0x02;

/**
 * The largest number of iterations that an encrypted key of this PEM text asks for: the largest number of its algorithm's parameters, which
 * are iterations and lengths. RFC 5958 section 3 (EncryptedPrivateKeyInfo), RFC 8018 appendix A.
 */
export function iterationsOf(pem: string): number {
  const bodies = pem.matchAll(/-----BEGIN ENCRYPTED PRIVATE KEY-----([\s\S]*?)(?:-----END|$)/g);
  return Math.max(0, ...Array.from(bodies, ([, body = ""]) => largestNumber(Buffer.from(body, "base64"))));
}

function largestNumber(der: Buffer, depth = 0): number {
  let largest = 0;
  if (depth > maxDepth) return largest;
  for (let at = 0; at + 2 <= der.length; ) {
    const { length, start } = lengthAt(der, at + 1);
    const content = der.subarray(start, start + length);
    if (der[at]! & constructed) largest = Math.max(largest, largestNumber(content, depth + 1));
    else if (der[at] === integer) largest = Math.max(largest, numberOf(content));
    at = start + length;
  }
  return largest;
}

/** X.690 section 8.1.3. A length that is not definite has no place in DER: it takes all that is left. */
function lengthAt(der: Buffer, at: number): { readonly length: number; readonly start: number } {
  const first = der[at]!;
  if (first < 0x80) return { length: first, start: at + 1 };
  const start = at + 1 + (first & 0x7f);
  return { length: start === at + 1 ? der.length : numberOf(der.subarray(at + 1, start)), start };
}

function numberOf(bytes: Buffer): number {
  return bytes.reduce((value, byte) => value * 256 + byte, 0);
}
