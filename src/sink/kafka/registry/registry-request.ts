// One request to a schema registry: sent to an address that was checked, bounded in time and in what is read of the answer, never
// redirected. What an answer means is left to registry-failure.ts.

import type { AddressResolver } from "../../../connection/egress.ts";
import type { SchemaRegistry as RegistryConfig } from "../../../connector/config/kafka/kafka-format.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { ConnectionPool } from "../../http/connection-pool.ts";
import { RequestTarget, sendRequest } from "../../http/send-request.ts";
import { StopList } from "../../http/stop-list.ts";

export interface RegistryAnswer {
  readonly status: number;
  /** The body's beginning, or all of it. */
  readonly body: string;
  /** The end of the body is missing, or may be. */
  readonly isCut: boolean;
}

/** Of an answer: one that finds a schema repeats it, and that of a table of 1,600 columns has some hundred kB. */
const answerBytes = 4 * 1024 * 1024;

const mediaType = "application/vnd.schemaregistry.v1+json";

export class RegistryRequests {
  readonly #root: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #tls: Bun.TLSOptions;
  /** What is not quoted from an answer: a registry may repeat what it was sent. */
  readonly secrets: readonly string[];
  /** For people. */
  readonly address: string;

  constructor(
    { url, username, password = "", ...pem }: RegistryConfig,
    private readonly timeoutMs: number,
    /** Requests go to no address that it refuses. */
    private readonly resolver: AddressResolver,
  ) {
    this.#root = url.replace(/\/+$/, "");
    this.address = new URL(url).host;
    const credentials = Buffer.from(`${username}:${password}`).toString("base64");
    this.#headers = {
      accept: `${mediaType}, application/json`,
      "content-type": mediaType,
      ...(username === undefined ? {} : { authorization: `Basic ${credentials}` }),
    };
    this.secrets = username === undefined ? [] : [password, credentials].filter((secret) => secret !== "");
    this.#tls = {
      ...(pem.ssl_ca ? { ca: pem.ssl_ca } : {}),
      ...(pem.ssl_certificate ? { cert: pem.ssl_certificate } : {}),
      ...(pem.ssl_key ? { key: pem.ssl_key } : {}),
    };
  }

  /** `body`: as JSON; null: a GET. Throws `sink_unreachable` where there is no answer, and the signal's reason when it is aborted. */
  async send(path: string, body: object | null, signal?: AbortSignal): Promise<RegistryAnswer> {
    // Requests are rare: a connection that waits for the next one may be closed just as it is used.
    using pool = new ConnectionPool();
    const how = { method: body === null ? "GET" : "POST", tls: this.#tls, answerBytes } as const;
    const result = await sendRequest({
      target: new RequestTarget(`${this.#root}${path}`, this.#headers, how),
      headers: {},
      body: new TextEncoder().encode(body === null ? "" : JSON.stringify(body)),
      egress: { resolver: this.resolver, pool },
      stops: new StopList(AbortSignal.any(signal ? [signal] : []), this.timeoutMs),
    });
    signal?.throwIfAborted();
    switch (result.kind) {
      case "answered":
        return {
          status: result.status,
          body: new TextDecoder().decode(result.body.bytes),
          isCut: result.body.isCut,
        };
      case "refused":
        throw new MillraceError("kafka_rejected", result.error.message.replace(/^host/, "schema registry"));
      case "failed":
        throw new MillraceError(
          "sink_unreachable",
          `The schema registry ${this.address} cannot be reached: ${result.reason}${hint(result.code)}.`,
        );
      default:
        return result satisfies never;
    }
  }
}

function hint(code: string): string {
  const isOfCertificates = /CERT|SIGNED|VERIFY|ALTNAME|TLS|SSL/.test(code);
  return isOfCertificates
    ? ". Check ssl_ca, and the client's certificate where the registry asks for one"
    : "";
}
