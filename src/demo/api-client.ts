// A client of the REST API for the demo, the tests and the benchmarks. It uses HTTP only.

import type { Command, GivenConnector } from "../connector/connector.ts";

/** The JSON body of a request. The contract gives its shape; the client does not check it. */
export type JsonBody = Readonly<Record<string, unknown>>;

export class ApiClient {
  constructor(readonly baseUrl: string) {}

  /** Sends a request. The caller reads the response. */
  request(method: string, path: string, body?: unknown): Promise<Response> {
    return fetch(new URL(path, this.baseUrl), {
      method,
      signal: AbortSignal.timeout(30_000),
      ...(body === undefined
        ? {}
        : { body: JSON.stringify(body), headers: { "content-type": "application/json" } }),
    });
  }

  /**
   * Sends a request that must succeed. Returns its JSON, or null for an empty body. Throws with the response's text
   * otherwise.
   */
  async call<Result>(method: string, path: string, body?: unknown): Promise<Result> {
    const response = await this.request(method, path, body);
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return (text === "" ? null : JSON.parse(text)) as Result;
  }

  async createConnector(id: string, connector: JsonBody): Promise<void> {
    await this.call("POST", `/api/v1/connectors/${id}`, { id, ...connector });
  }

  connector(id: string): Promise<GivenConnector> {
    return this.call("GET", `/api/v1/connectors/${id}`);
  }

  async command(id: string, command: Command): Promise<void> {
    await this.call("POST", `/api/v1/connector/command/${id}`, { command });
  }

  async deleteConnector(id: string): Promise<void> {
    await this.call("DELETE", `/api/v1/connectors/${id}`);
  }

  async exists(id: string): Promise<boolean> {
    const response = await this.request("GET", `/api/v1/connectors/${id}`);
    await response.body?.cancel();
    return response.status !== 404;
  }
}
