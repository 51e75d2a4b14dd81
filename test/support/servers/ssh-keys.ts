// Key pairs as people bring them, made by the ssh2 library, which is not what makes ours.

import { utils } from "ssh2";

export interface TestKeyPair {
  /** In OpenSSH form. */
  readonly privateKey: string;
  /** A line of `authorized_keys`. */
  readonly publicKey: string;
}

export function bringKey(type: "ed25519" | "rsa" | "ecdsa", passphrase?: string): TestKeyPair {
  const protection = passphrase === undefined ? {} : { passphrase, cipher: "aes256-ctr", rounds: 4 };
  const bits = type === "rsa" ? { bits: 2048 } : type === "ecdsa" ? { bits: 256 } : {};
  // library edge: the types want each key type's own options.
  const options = { ...bits, ...protection } as never;
  const { private: privateKey, public: publicKey } = utils.generateKeyPairSync(type as "rsa", options);
  // One Ed25519 key in 256 begins with a zero byte, which ssh2 leaves out: neither it nor anyone else can read such a key.
  const isWhole = !(utils.parseKey(privateKey, passphrase) instanceof Error);
  return isWhole ? { privateKey, publicKey } : bringKey(type, passphrase);
}
