// The service as commands talk to it: its address and credentials, and what it says in words for people.

/** What a command has failed of. `exitCode`: 1: the service has refused it; 3: there is no service. */
export class CommandFailure extends Error {
  constructor(
    message: string,
    readonly exitCode: 1 | 3 = 1,
  ) {
    super(message);
  }
}

export interface ServiceAccess {
  readonly url: string;
  readonly username: string | null;
  readonly password: string | null;
  readonly token: string | null;
}

export const defaultUrl = "http://127.0.0.1:3000";
const answerMs = 120_000;

/** `url` wins over MILLRACE_URL. Credentials are those that the service was started with; they have no flag. */
export function readAccess(
  url: string | undefined,
  environment: Readonly<Record<string, string | undefined>>,
): ServiceAccess {
  const variable = (name: string) => (environment[name]?.trim() ? (environment[name] ?? null) : null);
  const given = url ?? variable("MILLRACE_URL") ?? ownUrl(variable("MILLRACE_PORT"));
  if (!/^https?:\/\//.test(given) || !URL.canParse(given)) {
    throw new CommandFailure(
      "The service's address must look like http://127.0.0.1:3000 (--url, MILLRACE_URL).",
    );
  }
  const { origin, pathname, username, password, search, hash } = new URL(given);
  if (username !== "" || password !== "" || search !== "" || hash !== "") {
    throw new CommandFailure(
      "The service's address (--url, MILLRACE_URL) is an origin and a path alone. Credentials go into MILLRACE_API_TOKEN, " +
        "or MILLRACE_USERNAME and MILLRACE_PASSWORD.",
    );
  }
  return {
    url: `${origin}${pathname.replace(/\/+$/, "")}`,
    username: variable("MILLRACE_USERNAME"),
    password: variable("MILLRACE_PASSWORD"),
    token: variable("MILLRACE_API_TOKEN"),
  };
}

/** Of a service that was given its port by the same environment, as in a container. */
function ownUrl(port: string | null): string {
  return port === null ? defaultUrl : `http://127.0.0.1:${port}`;
}

export interface Answer<Body> {
  readonly status: number;
  readonly body: Body;
}

export class ServiceClient {
  /** `send`: the service itself may ask its own routes. */
  constructor(
    private readonly access: ServiceAccess,
    private readonly send: (request: Request) => Promise<Response> = (request) => fetch(request),
  ) {}

  /** Throws CommandFailure with the problem's own words, or where there is no answer. `body` is JSON. */
  async ask<Body>(method: string, path: string, body?: unknown): Promise<Answer<Body>> {
    const { status, text } = await this.#fetch(method, `api/v1/${path}`, body);
    if (status < 200 || status > 299) throw problem(status, text);
    if (text === "") return { status, body: null as Body };
    try {
      return { status, body: JSON.parse(text) as Body };
    } catch {
      throw problem(status, text);
    }
  }

  /** Why the service cannot work now; null: it can. Throws CommandFailure where there is no answer. */
  async unreadiness(): Promise<string | null> {
    const { status, text } = await this.#fetch("GET", "readyz", undefined);
    return status === 200 ? null : problem(status, text).message;
  }

  async #fetch(
    method: string,
    path: string,
    body: unknown,
  ): Promise<{ readonly status: number; readonly text: string }> {
    const { url } = this.access;
    try {
      const request = new Request(`${url}/${path}`, {
        method,
        headers: {
          ...this.#credentials(),
          ...(body === undefined ? {} : { "content-type": "application/json" }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        signal: AbortSignal.timeout(answerMs),
        redirect: "error",
      });
      const response = await this.send(request);
      return { status: response.status, text: await response.text() };
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new CommandFailure(
        `No service answers at ${url}: ${reason}. Start one with: millrace serve. Another address: --url, or MILLRACE_URL.`,
        3,
      );
    }
  }

  #credentials(): Readonly<Record<string, string>> {
    const { token, username, password } = this.access;
    if (token !== null) return { authorization: `Bearer ${token}` };
    if (username === null || password === null) return {};
    return { authorization: `Basic ${Buffer.from(`${username}:${password}`).toString("base64")}` };
  }
}

/** What an RFC 9457 problem says, with each violation on a line of its own. */
function problem(status: number, text: string): CommandFailure {
  const hint = status === 401 ? " Set MILLRACE_API_TOKEN, or MILLRACE_USERNAME and MILLRACE_PASSWORD." : "";
  const told = toldBy(text);
  if (told === null) {
    return new CommandFailure(`The answer was ${status}, and is none of this service's.${hint}`);
  }
  const { detail, errors } = told;
  const lines = [`${detail}${hint}`, ...errors.map(({ path, message }) => `  ${path}: ${message}`)];
  return new CommandFailure(lines.join("\n"));
}

interface Told {
  readonly detail: string;
  readonly errors: readonly { readonly path: string; readonly message: string }[];
}

function toldBy(text: string): Told | null {
  try {
    const { detail, code, errors } = JSON.parse(text) as Partial<Told & { code: string }>;
    if (typeof detail !== "string" || typeof code !== "string") return null;
    return { detail, errors: Array.isArray(errors) ? errors : [] };
  } catch {
    return null;
  }
}
