// What the service's log tells of its connector. To ask the service again and again takes CPU, which is measured.

import { untilAborted } from "../src/change/until-aborted.ts";

const longestMs = 600_000;

/** What a line tells, where it is a connector's status. */
interface StatusLine {
  readonly msg?: string;
  readonly component?: string;
  readonly state?: string;
  readonly reason?: string;
}

export class ServiceLog {
  #streaming: PromiseWithResolvers<void> | null = null;

  /** A line as the service writes it. */
  readonly read = (line: string): void => {
    const { msg, component, state, reason } = parsed(line);
    if (msg === "connector failed") this.#streaming?.reject(new Error(reason));
    else if (component === "Source" && state === "realtime") this.#streaming?.resolve();
  };

  /** Resolves when the next run streams, and so has copied its tables. Rejects when the connector fails, or takes too long. */
  untilStreaming(): Promise<void> {
    this.#streaming = Promise.withResolvers();
    return untilAborted(this.#streaming.promise, AbortSignal.timeout(longestMs));
  }
}

function parsed(line: string): StatusLine {
  try {
    return JSON.parse(line) as StatusLine;
  } catch {
    return {};
  }
}
