// Follows the connector's status through the service's log. Polling the API would take CPU, which is measured.

import { untilAborted } from "../../src/concurrency/until-aborted.ts";

const timeoutMs = 600_000;

/** The fields of a status line. */
interface StatusLine {
  readonly msg?: string;
  readonly component?: string;
  readonly state?: string;
  readonly reason?: string;
}

export class ServiceLog {
  #streaming: PromiseWithResolvers<void> | null = null;

  /** Reads a line of the log. */
  readonly read = (line: string): void => {
    const { msg, component, state, reason } = parsed(line);
    if (msg === "connector failed") this.#streaming?.reject(new Error(reason));
    else if (component === "Source" && state === "realtime") this.#streaming?.resolve();
  };

  /**
   * Resolves when the next run has copied its tables and streams. Rejects when the connector fails or the time is up.
   */
  untilStreaming(): Promise<void> {
    this.#streaming = Promise.withResolvers();
    return untilAborted(this.#streaming.promise, AbortSignal.timeout(timeoutMs));
  }
}

function parsed(line: string): StatusLine {
  try {
    return JSON.parse(line) as StatusLine;
  } catch {
    return {};
  }
}
