// What connecting to the brokers came to, in words: name, port and TLS. Pure.

import { type Finding, failed, passed, skipped, warned } from "../../../connection/validation-log.ts";
import { usesTls } from "../../../connector/config/kafka/kafka-rules.ts";
import type { KafkaAuth } from "../../../connector/config/kafka-config.ts";
import { notInTime, type Probe } from "./broker-probe.ts";

export interface ProbedBroker {
  readonly broker: string;
  readonly probe: Probe;
}

export function nameFinding({ broker, probe }: ProbedBroker, all: readonly ProbedBroker[]): Finding {
  if (probe.end === "refused")
    return harm(`Broker ${broker} is not connected to: ${probe.code}.`, all, hasAddress);
  if (probe.end !== "unresolved") return { type: "passed", message: broker };
  const reason = `The name of broker ${broker} does not resolve (${probe.code}): check connection.brokers.`;
  return harm(reason, all, hasAddress);
}

export function portFinding({ broker, probe }: ProbedBroker, all: readonly ProbedBroker[]): Finding {
  if (!hasAddress(probe)) return skipped("There is no address to connect to.");
  if (probe.end !== "unreached") return { type: "passed", message: broker };
  const reason = `No connection to broker ${broker}: ${probe.code}. Is it running, and reachable from here?`;
  return harm(reason, all, isReached);
}

/** A broker that is away does no harm while another one is there. */
function harm(reason: string, all: readonly ProbedBroker[], isFine: (probe: Probe) => boolean): Finding {
  if (!all.some(({ probe }) => isFine(probe))) return failed(reason);
  return warned(`${reason} The other brokers are asked meanwhile.`);
}

function hasAddress({ end }: Probe): boolean {
  return end !== "unresolved" && end !== "refused";
}

export function isReached(probe: Probe): boolean {
  return hasAddress(probe) && probe.end !== "unreached";
}

/** Of the brokers that are reached, the first that is wrong. */
export function tlsFinding(probed: readonly ProbedBroker[], auth: KafkaAuth): Finding {
  const problemOf = usesTls(auth) ? secureProblem : plainProblem;
  for (const { broker, probe } of probed) {
    const reason = problemOf(broker, probe, auth);
    if (reason !== null) return failed(reason);
  }
  if (usesTls(auth)) return passed;
  const what = auth.protocol === "Plaintext" ? "messages" : "messages and log-in";
  return skipped(`The protocol is ${auth.protocol}: ${what} travel unencrypted.`);
}

function plainProblem(broker: string, probe: Probe, { protocol }: KafkaAuth): string | null {
  if (probe.end !== "unanswered") return null;
  if (probe.speaksTls) {
    const other = protocol === "Plaintext" ? "Ssl" : "SaslSsl";
    return `The port of broker ${broker} speaks TLS: set auth.protocol to ${other}, or connect to its listener without TLS.`;
  }
  if (probe.code === notInTime)
    return `Broker ${broker} takes the connection, and does not answer: is it Kafka's listener, and does it work?`;
  return `What answers at ${broker} is no Kafka broker (${probe.code}): check connection.brokers.`;
}

const untrusted = /UNABLE_TO|SELF_SIGNED|UNKNOWN_CA|CERT_UNTRUSTED|INVALID_CA/;
const badFiles = /PEM|ASN1|NO_START_LINE|KEY_VALUES_MISMATCH|BAD_DECRYPT|ERR_OSSL|ERR_BORINGSSL|INVALID_ARG/;

function secureProblem(broker: string, probe: Probe, auth: KafkaAuth): string | null {
  const isKnown = auth.ssl_certificate !== undefined || auth.ssl_certificate_location !== undefined;
  if (probe.end === "unanswered") {
    const remedy = isKnown
      ? "it may not trust the client certificate: its authority has to be in the broker's trust store"
      : "it may require a client certificate: set auth.ssl_certificate and auth.ssl_key, or their _location";
    return `Broker ${broker} ended the connection after the TLS handshake (${probe.code}); ${remedy}.`;
  }
  if (probe.end !== "handshake") return null;
  const { code } = probe;
  if (probe.speaksPlain) {
    const other = auth.protocol === "Ssl" ? "Plaintext" : "SaslPlaintext";
    return `The port of broker ${broker} does not speak TLS: connect to its TLS listener, or set auth.protocol to ${other}.`;
  }
  if (untrusted.test(code))
    return `The certificate of broker ${broker} is signed by an authority that is not trusted here (${code}): set auth.ssl_ca, or auth.ssl_ca_location, to that authority's certificate.`;
  if (code.includes("ALTNAME"))
    return `The certificate of broker ${broker} is for another name (${code}): use the name that the certificate has in connection.brokers.`;
  if (/EXPIRED|NOT_YET/.test(code))
    return `The certificate of broker ${broker} is not valid now (${code}): renew it, or set the clocks.`;
  if (badFiles.test(code))
    return `The certificates or the key of auth cannot be used (${code}): check auth.ssl_ca, ssl_certificate, ssl_key and ssl_key_password.`;
  const hint = isKnown
    ? ""
    : " If it requires a client certificate, set auth.ssl_certificate and auth.ssl_key.";
  return `The TLS handshake with broker ${broker} failed: ${code}.${hint}`;
}
