// A command over answers that a test makes up: what it asks for, and what it prints.

import { ServiceClient } from "../../../src/cli/service-client.ts";
import type { CommandContext } from "../../../src/cli/text/terminal.ts";

/** `call`: its method and its path, without what all paths begin with. */
export interface AskedRequest {
  readonly call: string;
  readonly body: unknown;
}

export interface CommandRig {
  readonly context: CommandContext;
  readonly requests: readonly AskedRequest[];
  readonly printed: readonly string[];
  readonly warned: readonly string[];
}

/** `answer`: of the request, the `count`th of all from 1. Null: nothing listens. */
export function commandRig(
  answer: (request: AskedRequest, count: number) => Response | null,
  whileAway = { forMs: 0, everyMs: 1 },
): CommandRig {
  const requests: AskedRequest[] = [];
  const [printed, warned]: [string[], string[]] = [[], []];
  const access = { url: "http://service", username: null, password: null, token: null };
  const send = async (request: Request) => {
    const path = new URL(request.url).pathname.replace("/api/v1/", "");
    const text = await request.text();
    const asked = { call: `${request.method} ${path}`, body: text === "" ? null : JSON.parse(text) };
    requests.push(asked);
    const response = answer(asked, requests.length);
    if (!response) throw Object.assign(new Error("refused"), { code: "ECONNREFUSED" });
    return response;
  };
  const client = new ServiceClient(access, send, whileAway);
  const terminal = {
    print: (text: string) => void printed.push(text),
    warn: (text: string) => void warned.push(text),
    width: Number.POSITIVE_INFINITY,
    repaint: null,
  };
  return { context: { client, terminal, json: false }, requests, printed, warned };
}
