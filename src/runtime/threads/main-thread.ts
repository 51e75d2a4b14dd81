// A worker's side of the line to the main thread: posts messages, and waits for the replies to those that ask.

import type { SavedRecord } from "../../connector/saved-record.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import type { CheckpointStore } from "../../sink/sink.ts";
import type { NoteStore } from "../../source/source-notes.ts";
import type { RecordOwner, Reply, ReplyValue, StoreRequest } from "./messages.ts";

/** What a request has beside its reply's number. */
type Asking<Message> = Message extends { readonly requestId: number } ? Omit<Message, "requestId"> : never;

export class MainThread<Message extends { readonly type: string }> {
  #lastRequest = 0;
  #isHungUp = false;
  readonly #waiting = new Map<number, PromiseWithResolvers<ReplyValue>>();

  constructor(private readonly post: (message: Message) => void) {}

  tell(message: Message): void {
    this.post(message);
  }

  /** Resolves with the reply's value; throws the MillraceError that came in its place, or `internal` when no reply is to come. */
  ask(question: Asking<Message>): Promise<ReplyValue> {
    if (this.#isHungUp) return Promise.reject(hungUp());
    const requestId = ++this.#lastRequest;
    const answer = Promise.withResolvers<ReplyValue>();
    this.#waiting.set(requestId, answer);
    this.post({ ...question, requestId } as unknown as Message);
    return answer.promise;
  }

  /** No reply comes any more. What was asked may still be done. */
  hangUp(): void {
    this.#isHungUp = true;
    for (const answer of this.#waiting.values()) answer.reject(hungUp());
    this.#waiting.clear();
  }

  settle(reply: Reply): void {
    const answer = this.#waiting.get(reply.requestId);
    this.#waiting.delete(reply.requestId);
    if ("error" in reply) answer?.reject(new MillraceError(reply.error.code, reply.error.message));
    else answer?.resolve(reply.value);
  }
}

function hungUp(): MillraceError {
  return new MillraceError("internal", "The run is over.");
}

/** The record of the worker's sink in the state, which the main thread keeps. */
export function checkpointStore<Message extends { readonly type: string }>(
  main: MainThread<Message | StoreRequest>,
): CheckpointStore {
  return recordStore(main, "sink");
}

/** The record of the worker's source in the state, as `checkpointStore`. */
export function noteStore<Message extends { readonly type: string }>(
  main: MainThread<Message | StoreRequest>,
): NoteStore {
  const store = recordStore(main, "source");
  return { load: async () => (await store.load())?.text ?? null, save: (text) => store.save(text) };
}

function recordStore<Message extends { readonly type: string }>(
  main: MainThread<Message | StoreRequest>,
  owner: RecordOwner,
): CheckpointStore {
  return {
    load: async () =>
      (await main.ask({ type: "store.load", owner } as Asking<Message | StoreRequest>)) as SavedRecord | null,
    save: async (text, parts = new Map()) => {
      await main.ask({ type: "store.save", owner, text, parts } as Asking<Message | StoreRequest>);
    },
  };
}
