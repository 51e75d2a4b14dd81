// How a connector reaches its brokers: TLS and SASL, from its configuration and from files on this machine.

import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import type { ConnectionOptions } from "@platformatic/kafka";
import { usesSasl, usesTls } from "../../../connector/config/kafka/kafka-rules.ts";
import type { KafkaAuth } from "../../../connector/config/kafka-config.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { readBounded } from "../../../memory/read-bounded.ts";

export type Tls = NonNullable<ConnectionOptions["tls"]>;
export type Sasl = NonNullable<ConnectionOptions["sasl"]>;

const mechanisms = { Plain: "PLAIN", ScramSha256: "SCRAM-SHA-256", ScramSha512: "SCRAM-SHA-512" } as const;

/** Of a file: an authority's bundle has some hundred kB. */
const mostPemBytes = 2 ** 20;

/** Null: without TLS. Throws `sink_unreachable` naming a file that cannot be read. */
export async function tlsOf(auth: KafkaAuth): Promise<Tls | null> {
  if (!usesTls(auth)) return null;
  const [ca, cert, key] = await Promise.all([
    pem("ssl_ca_location", auth.ssl_ca, auth.ssl_ca_location),
    pem("ssl_certificate_location", auth.ssl_certificate, auth.ssl_certificate_location),
    pem("ssl_key_location", auth.ssl_key, auth.ssl_key_location),
  ]);
  return {
    ...(ca === null ? {} : { ca }),
    ...(cert === null ? {} : { cert }),
    ...(key === null ? {} : { key }),
    ...(auth.ssl_key_password === undefined ? {} : { passphrase: auth.ssl_key_password }),
    minVersion: "TLSv1.2",
  };
}

/** Null: without SASL. */
export function saslOf(auth: KafkaAuth): Sasl | null {
  if (!usesSasl(auth)) return null;
  const { mechanism = "Plain", username = "", password = "" } = auth;
  return { mechanism: mechanisms[mechanism], username, password };
}

async function pem(
  field: string,
  text: string | undefined,
  path: string | undefined,
): Promise<string | null> {
  if (text !== undefined) return text;
  if (path === undefined) return null;
  try {
    // A pipe would wait for who writes, and a device has no end.
    if (!(await stat(path)).isFile()) throw new Error("it is no regular file");
    return new TextDecoder().decode(await readBounded(createReadStream(path), mostPemBytes));
  } catch (cause) {
    const { code = null, message } = cause as NodeJS.ErrnoException;
    const told = `${field}: the file ${path} cannot be read (${code ?? message}). It has to be on the machine that the service runs on.`;
    throw new MillraceError("sink_unreachable", told, { cause });
  }
}
