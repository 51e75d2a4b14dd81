// Encrypts secrets at rest: AES-256-GCM with a fresh nonce for each text, bound to the location where the text is
// stored.

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

  /**
   * Returns `v1.<base64 of nonce, ciphertext and tag>`. `associatedData` names the location where it is stored: it
   * decrypts only with the same one.
   */
  seal(text: string, associatedData: string): string {
    const nonce = randomBytes(nonceLength);
    const cipher = createCipheriv("aes-256-gcm", this.#key, nonce).setAAD(Buffer.from(associatedData));
    const sealed = Buffer.concat([nonce, cipher.update(text, "utf8"), cipher.final(), cipher.getAuthTag()]);
    return `${version}.${sealed.toString("base64")}`;
  }

  /** Throws `encryption_key_mismatch` when the key, `associatedData` or the bytes are not those of `seal`. */
  open(sealed: string, associatedData: string): string {
    const [found, body] = sealed.split(".", 2);
    const bytes = Buffer.from(body ?? "", "base64");
    if (found !== version || bytes.length < nonceLength + tagLength) throw mismatch(associatedData);
    try {
      const decipher = createDecipheriv("aes-256-gcm", this.#key, bytes.subarray(0, nonceLength))
        .setAAD(Buffer.from(associatedData))
        .setAuthTag(bytes.subarray(bytes.length - tagLength));
      const text = decipher.update(bytes.subarray(nonceLength, bytes.length - tagLength));
      return Buffer.concat([text, decipher.final()]).toString("utf8");
    } catch {
      throw mismatch(associatedData);
    }
  }
}

function mismatch(associatedData: string): MillraceError {
  return new MillraceError(
    "encryption_key_mismatch",
    `What is stored for ${associatedData} cannot be decrypted with the key at hand. Set MILLRACE_ENCRYPTION_KEY to the key that this state was written with, or put the key file back into the data directory.`,
  );
}
