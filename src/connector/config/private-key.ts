// Checks the form of a tunnel's private key, so that a key that cannot work is refused with the request and not hours
// later. The SSH library reads the key's numbers.
// https://github.com/openssh/openssh-portable/blob/master/PROTOCOL.key

/** What is wrong with the key, without quoting it; null: nothing that can be seen here. */
export function privateKeyProblem(text: string): string | null {
  const match =
    /^\s*-----BEGIN ([A-Z]+) PRIVATE KEY-----\r?\n([\s\S]*?)-----END ([A-Z]+) PRIVATE KEY-----\s*$/.exec(
      text,
    );
  const [, label, body = "", end] = match ?? [];
  if (label === undefined || label !== end) return `expected ${accepted}`;
  if (label === "ENCRYPTED" || /ENCRYPTED/.test(body)) return passphrase;
  if (label === "OPENSSH") return opensshProblem(body);
  return ["RSA", "EC"].includes(label) ? null : `expected ${accepted}`;
}

const accepted =
  "a private key in OpenSSH form, from -----BEGIN OPENSSH PRIVATE KEY----- to -----END OPENSSH PRIVATE KEY-----";
const passphrase =
  "the key is protected by a passphrase; give one without (a copy of it, after ssh-keygen -p -N '')";
const broken = "the key is damaged: its text is not complete, or was altered";

const magic = "openssh-key-v1\0";
const keyTypes = /^(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521))$/;

function opensshProblem(base64: string): string | null {
  const bytes = Buffer.from(base64, "base64");
  const blank = base64.replaceAll(/\s/g, "");
  if (bytes.toString("base64").replaceAll("=", "") !== blank.replaceAll("=", "")) return broken;
  if (bytes.subarray(0, magic.length).toString("latin1") !== magic) return broken;
  const reader = new FieldReader(bytes, magic.length);
  const cipher = reader.text();
  reader.text(); // key derivation function
  reader.text(); // and its parameters
  if (reader.number() !== 1) return broken;
  const publicKey = reader.bytes();
  const secret = reader.bytes();
  if (reader.overran || secret.length === 0) return broken;
  const type = new FieldReader(publicKey, 0).text();
  if (!keyTypes.test(type)) return "expected an Ed25519, ECDSA or RSA key";
  return cipher === "none" ? null : passphrase;
}

/** Reads 4-byte numbers and length-prefixed strings. Past the end everything is empty. */
class FieldReader {
  overran = false;

  constructor(
    private readonly source: Buffer,
    private at: number,
  ) {}

  number(): number {
    const end = this.at + 4;
    if (end > this.source.length) {
      this.overran = true;
      return 0;
    }
    const value = this.source.readUInt32BE(this.at);
    this.at = end;
    return value;
  }

  bytes(): Buffer {
    const length = this.number();
    const start = this.at;
    if (start + length > this.source.length) {
      this.overran = true;
      return Buffer.alloc(0);
    }
    this.at = start + length;
    return this.source.subarray(start, this.at);
  }

  text(): string {
    return this.bytes().toString("latin1");
  }
}
