// Keeps what the console shows up to date: by the service's events, and by asking again and again where they do not come through.

import type { ConnectorStatus } from "../../src/connector/status.ts";
import type { Task } from "../../src/connector/task.ts";
import { type Api, answer } from "../api/client.ts";
import type { ServerEvent } from "../api/event-parser.ts";
import { readEventStream } from "../api/event-stream.ts";
import { ApiProblem } from "../api/problem.ts";
import {
  type ConnectorDraft,
  type Connectors,
  connectorsOf,
  isCopying,
  putConnector,
  putStatus,
} from "./connectors.ts";
import { untilShown, whileShown } from "./page-visibility.ts";
import { Store } from "./store.ts";

/** `live`: events come; `polling`: they do not, and the service answers; `lost`: it does not, or cannot say how things are. */
export type Link = "connecting" | "live" | "polling" | "lost";

const pollMs = 5_000;
/** Also while events come: progress is no event of its own. While something is copied, somebody watches how far it is. */
const refreshMs = 15_000;
/** The service is asked whether it is there this often: one that hangs keeps its connections open. */
const lookMs = 2_500;
const answerMs = 4_000;
const reconnectMs = 1_000;
/** The list comes much sooner, or the service does not answer. */
const listDeadlineMs = 15_000;
/** Changes are shown at most this often, however many come. */
const showMs = 200;

type StatusEvent = {
  readonly connector_id: string;
  readonly run_id: string;
  readonly status: ConnectorStatus;
};
type ConnectorEvent = { readonly connector_id: string; readonly change: "created" | "changed" | "deleted" };
type TaskEvent = { readonly connector_id: string; readonly task: Task };

export class Live {
  /** Null: not loaded yet. */
  readonly connectors = new Store<Connectors | null>(null);
  readonly link = new Store<Link>("connecting");
  /** Why the link is lost. `status` 0: no answer came. */
  readonly problem = new Store<ApiProblem | null>(null);
  /** The latest task event. */
  readonly task = new Store<TaskEvent | null>(null);
  readonly #ended = new AbortController();
  /** Events that came while the list was on its way: they are newer than it, or say the same. */
  #waiting: ServerEvent[] | null = null;
  #unshown: ConnectorDraft | null = null;
  /** The list that is on its way. */
  #loading = new AbortController();
  #lastEventId = "";
  #work: Promise<unknown> = Promise.resolve();
  #isStreaming = false;

  constructor(
    private readonly api: Api,
    private readonly eventsUrl: string,
  ) {}

  start(): void {
    this.#work = Promise.all([this.#keepStreaming(), this.#keepPolling(), this.#keepLooking()]);
  }

  /** Resolves when nothing goes on any more that looks at the page. */
  async stop(): Promise<void> {
    this.#ended.abort();
    this.#loading.abort();
    await this.#work;
  }

  /** Asks for a connector again, when something was done to it here. */
  async refresh(id: string): Promise<void> {
    try {
      const entry = await answer(this.api.connectors({ connector_id: id }).get());
      this.#show((draft) => putConnector(draft, entry));
    } catch (error) {
      if (error instanceof ApiProblem && error.status === 404) this.#show((draft) => draft.delete(id));
    }
  }

  async #keepStreaming(): Promise<void> {
    const { signal: ended } = this.#ended;
    while (!ended.aborted) {
      // A browser has six connections to a service that has no TLS, for all of its tabs. A tab that nobody sees takes
      // none for events: with more tabs, none would load.
      await untilShown(ended);
      // What went wrong is seen by polling, which shows whether the service answers at all.
      await whileShown(ended, (signal) => this.#stream(signal)).catch(() => {});
      const wasStreaming = this.#isStreaming;
      this.#isStreaming = false;
      if (ended.aborted || document.hidden) continue;
      if (this.link.value === "live") this.link.set("connecting");
      // The service may be gone: that is seen now, and not when polling has its turn.
      if (wasStreaming) void this.#reload();
      await pause(reconnectMs, ended);
    }
  }

  #stream(signal: AbortSignal): Promise<void> {
    return readEventStream({
      url: this.eventsUrl,
      lastEventId: this.#lastEventId,
      signal,
      opened: () => {
        this.#isStreaming = true;
        void this.#reload();
      },
      received: (event) => this.#receive(event),
      passed: (id) => {
        this.#lastEventId = id;
      },
    });
  }

  async #keepPolling(): Promise<void> {
    const { signal } = this.#ended;
    await this.#reload();
    while (!signal.aborted) {
      await pause(this.#isCalm() ? refreshMs : pollMs, signal);
      if (!document.hidden && !signal.aborted) await this.#reload();
    }
  }

  /** Finds out soon that the service is gone, and that it is there again. */
  async #keepLooking(): Promise<void> {
    const { signal } = this.#ended;
    while (!signal.aborted) {
      await pause(lookMs, signal);
      if (document.hidden || signal.aborted) continue;
      const problem = await this.#look();
      if (problem === null && this.link.value === "lost") await this.#reload();
      if (problem === null || signal.aborted) continue;
      this.#loading.abort();
      this.#lose(problem);
    }
  }

  /** Null: the service is there. */
  async #look(): Promise<ApiProblem | null> {
    try {
      const signal = AbortSignal.any([this.#ended.signal, AbortSignal.timeout(answerMs)]);
      await answer(this.api.session.get({ fetch: { signal } }));
      return null;
    } catch (error) {
      const problem = problemIn(error);
      return problem.status > 0 && problem.status < 500 ? null : problem;
    }
  }

  #lose(problem: ApiProblem): void {
    this.problem.set(problem);
    this.link.set("lost");
  }

  /** Events come, the service answers, and nothing is copied. */
  #isCalm(): boolean {
    return this.#isStreaming && this.link.value === "live" && !isCopying(this.#known());
  }

  async #reload(): Promise<void> {
    if (this.#waiting) return;
    this.#waiting = [];
    try {
      this.#loading = new AbortController();
      const deadline = AbortSignal.timeout(listDeadlineMs);
      const fetch = { signal: AbortSignal.any([this.#loading.signal, deadline]) };
      const { connectors } = await answer(this.api.connectors.get({ fetch }));
      const loaded = connectorsOf(connectors, this.#known());
      this.#unshown = null;
      this.connectors.set(loaded);
      this.problem.set(null);
      this.link.set(this.#isStreaming ? "live" : "polling");
    } catch (error) {
      // Who has broken it off has said why.
      if (!this.#loading.signal.aborted) this.#lose(problemIn(error));
    }
    const missed = this.#waiting;
    this.#waiting = null;
    for (const event of missed) this.#apply(event);
  }

  #receive(event: ServerEvent): void {
    if (this.#waiting) this.#waiting.push(event);
    else this.#apply(event);
  }

  #apply({ event, data }: ServerEvent): void {
    const content: unknown = JSON.parse(data);
    if (event === "status") {
      const { connector_id, run_id, status } = content as StatusEvent;
      if (this.#known().has(connector_id))
        this.#show((draft) => putStatus(draft, connector_id, run_id, status));
    } else if (event === "connector") {
      const { connector_id, change } = content as ConnectorEvent;
      if (change === "deleted") this.#show((draft) => draft.delete(connector_id));
      else void this.refresh(connector_id);
    } else if (event === "task") this.task.set(content as TaskEvent);
    else if (event === "reset") void this.#reload();
  }

  #known(): Connectors {
    return this.#unshown ?? this.connectors.value ?? new Map();
  }

  /** Gathers changes, so that a thousand connectors that change at once are rendered once. */
  #show(change: (draft: ConnectorDraft) => void): void {
    const isPlanned = this.#unshown !== null;
    this.#unshown ??= new Map(this.connectors.value);
    change(this.#unshown);
    if (isPlanned) return;
    setTimeout(() => {
      if (this.#unshown) this.connectors.set(this.#unshown);
      this.#unshown = null;
    }, showMs);
  }
}

/** A request that was given up has no answer, either. */
function problemIn(error: unknown): ApiProblem {
  return error instanceof ApiProblem && error.status > 0
    ? error
    : new ApiProblem(0, "unreachable", "The service does not answer.");
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const finish = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", finish);
      resolve();
    };
    const timer = setTimeout(finish, ms);
    signal.addEventListener("abort", finish);
  });
}
