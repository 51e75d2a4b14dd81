// Creates an Ed25519 key pair in OpenSSH form, as `ssh-keygen -t ed25519 -N ''` does. Node creates the key; the
// encodings are OpenSSH's PROTOCOL.key (private) and RFC 8709 (public).

import { generateKeyPairSync, randomBytes } from "node:crypto";

export interface SshKeyPair {
  /** PEM text "OPENSSH PRIVATE KEY" without a passphrase, with a final line break. */
  readonly private_key: string;
  /** A line for `authorized_keys`. */
  readonly public_key: string;
}

const keyType = "ssh-ed25519";
const comment = "millrace";

export function newSshKeyPair(): SshKeyPair {
  const { privateKey } = generateKeyPairSync("ed25519");
  const { d, x } = privateKey.export({ format: "jwk" });
  const seed = Buffer.from(d ?? "", "base64url");
  const publicKey = Buffer.from(x ?? "", "base64url");
  const publicBlob = Buffer.concat([sshString(keyType), sshString(publicKey)]);
  return {
    private_key: pem(privateBlob(seed, publicKey, publicBlob)),
    public_key: `${keyType} ${publicBlob.toString("base64")} ${comment}`,
  };
}

function privateBlob(seed: Buffer, publicKey: Buffer, publicBlob: Buffer): Buffer {
  // The same random number twice: for an encrypted key, a difference would reveal a wrong passphrase.
  const check = randomBytes(4);
  const secret = Buffer.concat([
    check,
    check,
    sshString(keyType),
    sshString(publicKey),
    sshString(Buffer.concat([seed, publicKey])),
    sshString(comment),
  ]);
  return Buffer.concat([
    Buffer.from("openssh-key-v1\0", "latin1"),
    sshString("none"),
    sshString("none"),
    sshString(""),
    uint32(1),
    sshString(publicBlob),
    sshString(Buffer.concat([secret, padding(secret.length)])),
  ]);
}

/** Padding 1, 2, 3, … to a multiple of eight, the block size of the cipher `none`. */
function padding(length: number): Buffer {
  return Buffer.from(Array.from({ length: (8 - (length % 8)) % 8 }, (_, index) => index + 1));
}

function sshString(content: string | Buffer): Buffer {
  const bytes = typeof content === "string" ? Buffer.from(content, "utf8") : content;
  return Buffer.concat([uint32(bytes.length), bytes]);
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

function pem(bytes: Buffer): string {
  const lines = bytes.toString("base64").match(/.{1,70}/g) ?? [];
  return ["-----BEGIN OPENSSH PRIVATE KEY-----", ...lines, "-----END OPENSSH PRIVATE KEY-----", ""].join(
    "\n",
  );
}
