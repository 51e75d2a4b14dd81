// A worker's side of the line to the main thread: posts messages, and waits for the replies to those that ask.

import { MillraceError } from "../errors/millrace-error.ts";
import type { RecordOwner, Reply, StoreRequest } from "./messages.ts";

/** What a request has beside its reply's number. */
type Asking<Message> = Message extends { readonly requestId: number } ? Omit<Message, "requestId"> : never;

export class MainThread<Message extends { readonly type: string }> {
  #lastRequest = 0;
  readonly #waiting = new Map<number, PromiseWithResolvers<string | null>>();

  constructor(private readonly post: (message: Message) => void) {}

  tell(message: Message): void {
    this.post(message);
  }

  /** Resolves with the reply's value; throws the MillraceError that came in its place. */
  ask(question: Asking<Message>): Promise<string | null> {
    const requestId = ++this.#lastRequest;
    const answer = Promise.withResolvers<string | null>();
    this.#waiting.set(requestId, answer);
    this.post({ ...question, requestId } as unknown as Message);
    return answer.promise;
  }

  settle(reply: Reply): void {
    const answer = this.#waiting.get(reply.requestId);
    this.#waiting.delete(reply.requestId);
    if ("error" in reply) answer?.reject(new MillraceError(reply.error.code, reply.error.message));
    else answer?.resolve(reply.value);
  }
}

/** The record of the worker's source or sink in the state, which the main thread keeps. */
export function recordStore<Message extends { readonly type: string }>(
  main: MainThread<Message | StoreRequest>,
  owner: RecordOwner,
): { load(): Promise<string | null>; save(record: string): Promise<void> } {
  return {
    load: () => main.ask({ type: "store.load", owner } as Asking<Message | StoreRequest>),
    save: async (record) => {
      await main.ask({ type: "store.save", owner, record } as Asking<Message | StoreRequest>);
    },
  };
}
