// A client of the service's API for the commands: its address and credentials, and its errors as text for people.

/** Why a command failed. `exitCode` 1: the service refused; 3: no service answers. */
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

/** How long a command that waits bears that the service is away, as while it is upgraded, and how often it asks then. */
const patience = { forMs: 60_000, everyMs: 1_000 };

export const defaultUrl = "http://127.0.0.1:3000";
const answerMs = 120_000;

/**
 * `url` takes precedence over MILLRACE_URL. Credentials are those of the service's own environment; they have no flag.
 */
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

/** The URL of a service that got its port from the same environment, as in a container. */
function ownUrl(port: string | null): string {
  return port === null ? defaultUrl : `http://127.0.0.1:${port}`;
}

export interface Answer<Body> {
  readonly status: number;
  readonly body: Body;
}

interface AnsweredText {
  readonly status: number;
  readonly text: string;
}

/** Of the service without its state, and of what stands before it. */
const awayStatuses: readonly number[] = [502, 503, 504];

export class ServiceClient {
  /** `send`: lets the service call its own routes. */
  constructor(
    private readonly access: ServiceAccess,
    private readonly send: (request: Request) => Promise<Response> = (request) => fetch(request),
    private readonly whileAway = patience,
  ) {}

  /** Sends a request; `body` becomes JSON. Throws CommandFailure with the problem's text, or when nothing answers. */
  async call<Body>(method: string, path: string, body?: unknown): Promise<Answer<Body>> {
    return answerOf(await this.#fetch(method, `api/v1/${path}`, body));
  }

  /** What a GET of a command that waits finds: the service may be away for a minute. Throws as `call` does. */
  async poll<Body>(path: string): Promise<Body> {
    return answerOf<Body>(await this.#fetchPatiently(`api/v1/${path}`)).body;
  }

  /** Whether a GET finds something; the service may be away for a minute. Throws as `call` does. */
  async finds(path: string): Promise<boolean> {
    const { status, text } = await this.#fetchPatiently(`api/v1/${path}`);
    if (status === 404) return false;
    requireSuccess(status, text);
    return true;
  }

  /** Why the service is not ready; null: it is. Throws CommandFailure when nothing answers. */
  async unreadiness(): Promise<string | null> {
    const { status, text } = await this.#fetch("GET", "readyz", undefined);
    return status === 200 ? null : problem(status, text).message;
  }

  async #fetchPatiently(path: string): Promise<AnsweredText> {
    const { forMs, everyMs } = this.whileAway;
    const deadline = performance.now() + forMs;
    while (true) {
      const isLast = performance.now() > deadline;
      try {
        const response = await this.#fetch("GET", path, undefined);
        if (isLast || !awayStatuses.includes(response.status)) return response;
      } catch (error) {
        if (isLast) throw error;
      }
      await Bun.sleep(everyMs);
    }
  }

  async #fetch(method: string, path: string, body: unknown): Promise<AnsweredText> {
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
      throw new CommandFailure(
        `No service answers at ${url}: ${reasonOf(error)}. Start one with: millrace serve. Another address: --url, or MILLRACE_URL.`,
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

/** A refused connection is the usual case, and the client's own words for it ask a question. */
function reasonOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  const isRefused = /ECONNREFUSED|ConnectionRefused/.test(`${text} ${(error as { code?: unknown })?.code}`);
  return isRefused ? "nothing listens there (ECONNREFUSED)" : text.replace(/[.?]+$/, "");
}

/** Throws CommandFailure with the problem's text. */
function answerOf<Body>({ status, text }: AnsweredText): Answer<Body> {
  requireSuccess(status, text);
  if (text === "") return { status, body: null as Body };
  try {
    return { status, body: JSON.parse(text) as Body };
  } catch {
    throw problem(status, text);
  }
}

function requireSuccess(status: number, text: string): void {
  if (status < 200 || status > 299) throw problem(status, text);
}

/** The text of an RFC 9457 problem, with each violation on its own line; of an invalid request the violations alone. */
function problem(status: number, text: string): CommandFailure {
  const hint = status === 401 ? " Set MILLRACE_API_TOKEN, or MILLRACE_USERNAME and MILLRACE_PASSWORD." : "";
  const parsed = parseProblem(text);
  if (parsed === null) {
    return new CommandFailure(`The answer was ${status}, and is none of this service's.${hint}`);
  }
  const { detail, code, errors } = parsed;
  const violations = errors.map(({ path, message }) => (path === "" ? message : `${path}: ${message}`));
  if (code === "invalid_request" && violations.length > 0) return new CommandFailure(violations.join("\n"));
  return new CommandFailure([`${detail}${hint}`, ...violations.map((each) => `  ${each}`)].join("\n"));
}

interface ParsedProblem {
  readonly detail: string;
  readonly code: string;
  readonly errors: readonly { readonly path: string; readonly message: string }[];
}

function parseProblem(text: string): ParsedProblem | null {
  try {
    const { detail, code, errors } = JSON.parse(text) as Partial<ParsedProblem>;
    if (typeof detail !== "string" || typeof code !== "string") return null;
    return { detail, code, errors: Array.isArray(errors) ? errors : [] };
  } catch {
    return null;
  }
}
