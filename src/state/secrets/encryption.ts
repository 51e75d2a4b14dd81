// Sealing of what is secret at rest: AES-256-GCM, a fresh nonce for each text, bound to where the text belongs.

import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import { MillraceError } from "../../errors/millrace-error.ts";

const version = "v1";
const nonceLength = 12;
const tagLength = 16;

export class Cipher {
  readonly #key: Buffer;

  /** `key`: 32 bytes. */
  constructor(key: Uint8Array) {
    if (key.length !== 32)
      throw new MillraceError("invalid_setting", "The encryption key must have 32 bytes.");
    this.#key = Buffer.from(key);
  }

  /** `v1.<base64 of nonce, ciphertext and tag>`. `place` names where it is stored; only there does it open again. */
  seal(text: string, place: string): string {
    const nonce = randomBytes(nonceLength);
    const cipher = createCipheriv("aes-256-gcm", this.#key, nonce).setAAD(Buffer.from(place));
    const sealed = Buffer.concat([nonce, cipher.update(text, "utf8"), cipher.final(), cipher.getAuthTag()]);
    return `${version}.${sealed.toString("base64")}`;
  }

  /** The text. Throws `encryption_key_mismatch` when the key, the place or the bytes are not those of `seal`. */
  open(sealed: string, place: string): string {
    const [found, body] = sealed.split(".", 2);
    const bytes = Buffer.from(body ?? "", "base64");
    if (found !== version || bytes.length < nonceLength + tagLength) throw mismatch(place);
    try {
      const decipher = createDecipheriv("aes-256-gcm", this.#key, bytes.subarray(0, nonceLength))
        .setAAD(Buffer.from(place))
        .setAuthTag(bytes.subarray(bytes.length - tagLength));
      const text = decipher.update(bytes.subarray(nonceLength, bytes.length - tagLength));
      return Buffer.concat([text, decipher.final()]).toString("utf8");
    } catch {
      throw mismatch(place);
    }
  }
}

function mismatch(place: string): MillraceError {
  return new MillraceError(
    "encryption_key_mismatch",
    `What is stored for ${place} cannot be decrypted with the key at hand. Set MILLRACE_ENCRYPTION_KEY to the key that this state was written with, or put the key file back into the data directory.`,
  );
}
