// A schema registry of Confluent's kind for tests: ids, subjects, versions, compatibility by Avro's own rules of resolution, a user and
// password, TLS, and the ways in which a registry fails.

import type { Server } from "bun";
import { avroType } from "./avro-decoding.ts";

export type Compatibility = "NONE" | "BACKWARD" | "FORWARD" | "FULL";

/** `slow`: it never answers. `garbage`: a page of a proxy. `endless`: a body without an end. */
export type RegistryMode = "well" | "slow" | "failing" | "garbage" | "endless";

export interface RegistryRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface RegistryDoubleOptions {
  readonly compatibility?: Compatibility;
  readonly user?: { readonly username: string; readonly password: string };
  readonly tls?: Bun.TLSOptions;
  /** Keeps the port of one that is away. */
  readonly port?: number;
}

export class SchemaRegistryDouble implements AsyncDisposable {
  readonly requests: RegistryRequest[] = [];
  /** Schemas by subject, in the order of their versions. */
  readonly subjects = new Map<string, string[]>();
  mode: RegistryMode = "well";
  /** Answers in the registry's place; undefined: it answers itself. */
  script: (request: RegistryRequest) => Response | undefined = () => undefined;
  readonly #ids = new Map<string, number>();
  readonly #server: Server<undefined>;

  constructor(private readonly options: RegistryDoubleOptions = {}) {
    this.#server = Bun.serve({
      port: options.port ?? 0,
      hostname: "localhost",
      ...(options.tls ? { tls: options.tls } : {}),
      fetch: (request) => this.#fetch(request),
    });
  }

  get port(): number {
    return this.#server.port!;
  }

  get url(): string {
    return `${this.options.tls ? "https" : "http"}://localhost:${this.port}`;
  }

  /** The schema that an id means. */
  schemaOf(id: number): string {
    const found = [...this.#ids].find(([, each]) => each === id);
    if (!found) throw new Error(`no schema ${id}`);
    return found[0];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.stop(true);
  }

  async #fetch(request: Request): Promise<Response> {
    const url = new URL(request.url);
    const received = {
      method: request.method,
      path: url.pathname,
      headers: Object.fromEntries(request.headers),
      body: await request.text(),
    };
    this.requests.push(received);
    return this.script(received) ?? this.#answerByMode(received);
  }

  #answerByMode(request: RegistryRequest): Response | Promise<Response> {
    switch (this.mode) {
      case "well":
        return this.#answer(request);
      case "slow":
        return new Promise(() => {});
      case "failing":
        return refused(500, 50_001, "Error in the backend data store");
      case "garbage":
        return new Response("<html>Welcome</html>", { headers: { "content-type": "text/html" } });
      case "endless":
        return new Response(endless());
      default:
        return this.mode satisfies never;
    }
  }

  #answer({ method, path, headers, body }: RegistryRequest): Response {
    const { user } = this.options;
    const credentials = user && Buffer.from(`${user.username}:${user.password}`).toString("base64");
    if (user && headers.authorization !== `Basic ${credentials}`) return refused(401, 401, "Unauthorized");
    if (method === "GET" && path === "/subjects") return Response.json([...this.subjects.keys()]);
    const [, name, versions] = /^\/subjects\/([^/]+)(\/versions)?$/.exec(path) ?? [];
    if (method !== "POST" || name === undefined) return refused(404, 404, "HTTP 404 Not Found");
    const { schema, schemaType } = JSON.parse(body) as { schema: string; schemaType: string };
    if (schemaType !== "AVRO") return refused(422, 42_201, "Invalid schema type");
    const subject = decodeURIComponent(name);
    return versions ? this.#register(subject, schema) : this.#lookUp(subject, schema);
  }

  #lookUp(subject: string, schema: string): Response {
    const versions = this.subjects.get(subject);
    if (!versions) return refused(404, 40_401, `Subject '${subject}' not found.`);
    const version = versions.indexOf(schema) + 1;
    if (version === 0) return refused(404, 40_403, "Schema not found");
    return Response.json({ subject, id: this.#ids.get(schema), version, schema });
  }

  #register(subject: string, schema: string): Response {
    const versions = this.subjects.get(subject) ?? [];
    if (!versions.includes(schema)) {
      const invalid = messageOf(() => avroType(schema));
      if (invalid !== null) return refused(422, 42_201, `Invalid schema: ${invalid}`);
      const latest = versions.at(-1);
      const clash = latest === undefined ? null : this.#clash(latest, schema);
      if (clash !== null) return refused(409, 409, `Schema being registered is incompatible: ${clash}`);
      this.subjects.set(subject, [...versions, schema]);
    }
    const id = this.#ids.get(schema) ?? this.#ids.size + 1;
    this.#ids.set(schema, id);
    return Response.json({ id });
  }

  /** Why `schema` may not follow `latest`; null: it may. */
  #clash(latest: string, schema: string): string | null {
    const { compatibility = "BACKWARD" } = this.options;
    const [old, now] = [avroType(latest), avroType(schema)];
    const reads = (reader: typeof old, writer: typeof old) => messageOf(() => reader.createResolver(writer));
    const backward = compatibility === "BACKWARD" || compatibility === "FULL" ? reads(now, old) : null;
    const forward = compatibility === "FORWARD" || compatibility === "FULL" ? reads(old, now) : null;
    return backward ?? forward;
  }
}

function refused(status: number, code: number, message: string): Response {
  return Response.json({ error_code: code, message }, { status });
}

function messageOf(action: () => unknown): string | null {
  try {
    action();
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

function endless(): ReadableStream<Uint8Array> {
  return new ReadableStream({
    pull(controller) {
      controller.enqueue(new Uint8Array(16 * 1024).fill(32));
    },
  });
}
