// A certificate authority for one test: a root, and what it signs. With a root of one's own there are wrong ones too.

import { generateKeyPairSync } from "node:crypto";
import forge from "node-forge";

export interface CertificateAndKey {
  /** PEM text. */
  readonly certificate: string;
  /** PEM text. */
  readonly key: string;
}

export interface LeafOptions {
  /** Of a client: the role that it stands for. */
  readonly commonName: string;
  /** The DNS name of a server. */
  readonly dnsName?: string;
  /** From now; negative: it has expired. */
  readonly validForDays?: number;
}

interface KeyPair {
  readonly publicKey: forge.pki.rsa.PublicKey;
  readonly privateKey: forge.pki.rsa.PrivateKey;
  readonly pem: string;
}

const dayMs = 86_400_000;

export class CertificateAuthority {
  readonly #keys = newKeys();
  readonly #subject: forge.pki.CertificateField[];
  /** PEM text. */
  readonly root: string;

  constructor(commonName: string) {
    this.#subject = [{ name: "commonName", value: commonName }];
    this.root = this.#sign(this.#subject, this.#keys, 10, [
      { name: "basicConstraints", cA: true, critical: true },
    ]);
  }

  issue({ commonName, dnsName, validForDays = 5 }: LeafOptions): CertificateAndKey {
    const keys = newKeys();
    const subject = [{ name: "commonName", value: commonName }];
    const names = dnsName ? [{ name: "subjectAltName", altNames: [{ type: 2, value: dnsName }] }] : [];
    return { certificate: this.#sign(subject, keys, validForDays, names), key: keys.pem };
  }

  #sign(subject: forge.pki.CertificateField[], keys: KeyPair, days: number, extensions: object[]): string {
    const certificate = forge.pki.createCertificate();
    certificate.publicKey = keys.publicKey;
    // Positive: the highest bit is clear.
    certificate.serialNumber = `01${forge.util.bytesToHex(forge.random.getBytesSync(8))}`;
    certificate.validity.notBefore = new Date(Date.now() - 9 * dayMs);
    certificate.validity.notAfter = new Date(Date.now() + days * dayMs);
    certificate.setSubject(subject);
    certificate.setIssuer(this.#subject);
    certificate.setExtensions(extensions);
    certificate.sign(this.#keys.privateKey, forge.md.sha256.create());
    return forge.pki.certificateToPem(certificate);
  }
}

/** By the runtime: the library's own are slow. */
function newKeys(): KeyPair {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const pem = privateKey.export({ type: "pkcs1", format: "pem" }).toString();
  const own = forge.pki.privateKeyFromPem(pem);
  return { privateKey: own, publicKey: forge.pki.rsa.setPublicKey(own.n, own.e), pem };
}
