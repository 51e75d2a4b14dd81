// The commands that give a user what it lacks, ready to paste. Pure.

import { X509Certificate } from "node:crypto";
import type { KafkaAuth, KafkaConnection } from "../../../connector/config/kafka-config.ts";

export interface Grant {
  /** As kafka-acls.sh has them: Write implies Describe. */
  readonly operations: readonly string[];
  readonly on: "topic" | "transactional-id" | "cluster";
  /** Of a cluster: not looked at. */
  readonly name: string;
  readonly isPrefix?: boolean;
}

export function aclCommand(
  { brokers, auth }: KafkaConnection,
  grant: Grant,
  certificate: string | null,
): string {
  const { operations, on, name, isPrefix = false } = grant;
  return [
    `kafka-acls.sh --bootstrap-server ${brokers[0]} --add --allow-principal ${quoted(`User:${principal(auth, certificate)}`)}`,
    ...operations.map((operation) => `--operation ${operation}`),
    on === "cluster" ? "--cluster" : `--${on} ${quoted(name)}`,
    ...(isPrefix ? ["--resource-pattern-type prefixed"] : []),
  ].join(" ");
}

/** Who the brokers take the user for: `certificate` is that of the client, as PEM text. */
function principal({ protocol, username }: KafkaAuth, certificate: string | null): string {
  if (protocol === "SaslPlaintext" || protocol === "SaslSsl") return username ?? "";
  if (protocol !== "Ssl" || certificate === null) return "ANONYMOUS";
  try {
    return new X509Certificate(certificate).subject.split("\n").reverse().join(",");
  } catch {
    return "the client certificate's subject";
  }
}

function quoted(text: string): string {
  return /^[\w.:,@%+=/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
