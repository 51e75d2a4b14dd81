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
  const variable = (name: string) => environment[name]?.trim() || null;
  const given = url ?? variable("MILLRACE_URL") ?? defaultUrl;
  if (!/^https?:\/\//.test(given) || !URL.canParse(given)) {
    throw new CommandFailure(
      "The service's address must look like http://127.0.0.1:3000 (--url, MILLRACE_URL).",
    );
  }
  return {
    url: given,
    username: variable("MILLRACE_USERNAME"),
    password: variable("MILLRACE_PASSWORD"),
    token: variable("MILLRACE_API_TOKEN"),
  };
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
    const response = await this.#fetch(method, path, body);
    const text = await response.text();
    if (!response.ok) throw new CommandFailure(problemText(response.status, text));
    return { status: response.status, body: (text === "" ? null : JSON.parse(text)) as Body };
  }

  async #fetch(method: string, path: string, body: unknown): Promise<Response> {
    const { url } = this.access;
    try {
      const request = new Request(new URL(`/api/v1/${path}`, url).href, {
        method,
        headers: {
          ...this.#credentials(),
          ...(body === undefined ? {} : { "content-type": "application/json" }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        signal: AbortSignal.timeout(answerMs),
        redirect: "error",
      });
      return await this.send(request);
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
function problemText(status: number, text: string): string {
  const hint = status === 401 ? " Set MILLRACE_API_TOKEN, or MILLRACE_USERNAME and MILLRACE_PASSWORD." : "";
  try {
    const { detail, errors = [] } = JSON.parse(text) as {
      detail: string;
      errors?: readonly { readonly path: string; readonly message: string }[];
    };
    return [`${detail}${hint}`, ...errors.map(({ path, message }) => `  ${path}: ${message}`)].join("\n");
  } catch {
    return `The answer was ${status}, and is none of this service's.${hint}`;
  }
}
