// The REST API as the demo and the tests call it, over HTTP and nothing else.

import type { Command, ConnectorWithStatus } from "../connector/connector.ts";

/** What a client sends: the contract's request form, not checked here. */
export type JsonBody = Readonly<Record<string, unknown>>;

export class ApiClient {
  constructor(readonly baseUrl: string) {}

  /** Any call. The response is the caller's to read. */
  request(method: string, path: string, body?: unknown): Promise<Response> {
    return fetch(new URL(path, this.baseUrl), {
      method,
      signal: AbortSignal.timeout(30_000),
      ...(body === undefined
        ? {}
        : { body: JSON.stringify(body), headers: { "content-type": "application/json" } }),
    });
  }

  /** A call that must succeed: its JSON, or null for an empty body. Throws with the problem's text otherwise. */
  async call<Result>(method: string, path: string, body?: unknown): Promise<Result> {
    const response = await this.request(method, path, body);
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return (text === "" ? null : JSON.parse(text)) as Result;
  }

  async createConnector(id: string, connector: JsonBody): Promise<void> {
    await this.call("POST", `/api/v1/connectors/${id}`, { id, ...connector });
  }

  connector(id: string): Promise<ConnectorWithStatus> {
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
