// One request to a schema registry: bounded in time and in what is read of the answer, never redirected. What an answer means is left to
// registry-failure.ts.

import type { AddressResolver } from "../../../connection/egress.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";

export interface RegistryConnection {
  /** Of the registry's root; a path is kept, a user and password in it are used. */
  readonly url: string;
  readonly username?: string;
  readonly password?: string;
  /** PEM text. */
  readonly ssl_ca?: string;
  readonly ssl_certificate?: string;
  readonly ssl_key?: string;
}

export interface RegistryAnswer {
  readonly status: number;
  /** The body's beginning, or all of it. */
  readonly body: string;
}

const mediaType = "application/vnd.schemaregistry.v1+json";
/** A registry answers with a number, or with a sentence. A list of subjects is longer, and is not read. */
const maxBodyBytes = 64 * 1024;

export class RegistryRequests {
  readonly #root: string;
  readonly #hostname: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #tls: Bun.TLSOptions;
  /** What is not quoted from an answer: a registry may repeat what it was sent. */
  readonly secrets: readonly string[];
  /** For people: without a user and a password. */
  readonly address: string;

  constructor(
    connection: RegistryConnection,
    private readonly timeoutMs: number,
    /** Requests go to no address that it refuses. */
    private readonly resolver: Pick<AddressResolver, "addresses">,
  ) {
    const { url, username, password } = locationOf(connection);
    this.#root = url.href.replace(/\/+$/, "");
    this.address = url.host;
    this.#hostname = url.hostname;
    const credentials = Buffer.from(`${username}:${password}`).toString("base64");
    const hasUser = username !== "" || password !== "";
    this.#headers = {
      accept: `${mediaType}, application/json`,
      "content-type": mediaType,
      ...(hasUser ? { authorization: `Basic ${credentials}` } : {}),
    };
    this.secrets = hasUser ? [password, credentials].filter((secret) => secret !== "") : [];
    this.#tls = {
      rejectUnauthorized: true,
      ...(connection.ssl_ca ? { ca: connection.ssl_ca } : {}),
      ...(connection.ssl_certificate ? { cert: connection.ssl_certificate } : {}),
      ...(connection.ssl_key ? { key: connection.ssl_key } : {}),
    };
  }

  /** `body`: as JSON; null: a GET. Throws `sink_unreachable` where there is no answer, and the signal's reason when it is aborted. */
  async send(path: string, body: object | null, signal?: AbortSignal): Promise<RegistryAnswer> {
    signal?.throwIfAborted();
    const timeout = AbortSignal.timeout(this.timeoutMs);
    try {
      await this.resolver.addresses(this.#hostname);
      const response = await fetch(`${this.#root}${path}`, {
        method: body === null ? "GET" : "POST",
        headers: this.#headers,
        ...(body === null ? {} : { body: JSON.stringify(body) }),
        redirect: "manual",
        signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
        tls: this.#tls,
        // Requests are rare, and a connection that waits may be closed just as it is used.
        keepalive: false,
      });
      return { status: response.status, body: await beginningOf(response) };
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof MillraceError) throw this.#refused(error);
      throw this.#unreachable(error, timeout.aborted);
    }
  }

  #refused({ message }: MillraceError): MillraceError {
    return new MillraceError("kafka_rejected", message.replace(/^webhook host/, "schema registry"));
  }

  #unreachable(error: unknown, isLate: boolean): MillraceError {
    const why = isLate
      ? `gave no answer within ${this.timeoutMs} ms`
      : `cannot be reached: ${reasonOf(error)}`;
    return new MillraceError("sink_unreachable", `The schema registry ${this.address} ${why}.`);
  }
}

/** The url, and the user and password apart from it. Nothing of a url that cannot be read is told: it may hold a password. */
function locationOf(connection: RegistryConnection) {
  const url = URL.parse(connection.url);
  if (!url || !/^https?:$/.test(url.protocol)) {
    throw new MillraceError(
      "invalid_setting",
      "The url of the schema registry must be an http or https URL.",
    );
  }
  const username = connection.username ?? decoded(url.username);
  const password = connection.password ?? decoded(url.password);
  url.username = "";
  url.password = "";
  url.search = "";
  url.hash = "";
  return { url, username, password };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The error's message may hold the URL; its code says as much. */
function reasonOf(error: unknown): string {
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  if (/CERT|SIGNED|VERIFY|ALTNAME|TLS|SSL/.test(code)) {
    return `${code}. Check ssl_ca, and the client's certificate where the registry asks for one`;
  }
  return code === "" ? "the request failed" : code;
}

async function beginningOf(response: Response): Promise<string> {
  if (!response.body) return "";
  const parts: Uint8Array[] = [];
  let length = 0;
  const reader = response.body.getReader();
  try {
    while (length < maxBodyBytes) {
      const { done, value } = await reader.read();
      if (done) break;
      parts.push(value);
      length += value.length;
    }
  } finally {
    // Closes the connection, where there is more. That may fail as the body did.
    reader.cancel().catch(() => {});
  }
  return new TextDecoder().decode(Buffer.concat(parts).subarray(0, maxBodyBytes));
}
