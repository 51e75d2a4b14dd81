// A worker's channel to the main thread: sends messages, and matches replies with requests.

import { noReceipts, type ReceiptCall } from "../../connector/receipts.ts";
import type { SavedRecord } from "../../connector/saved-record.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import { type ParkingStore, parkingStoreOf } from "../../sink/delivery/parking/parking-store.ts";
import type { CheckpointStore } from "../../sink/sink.ts";
import type { SourceStateStore } from "../../source/source-state.ts";
import type {
  ParkingRequest,
  ReceiptRequest,
  RecordOwner,
  Reply,
  ReplyValue,
  StoreRequest,
} from "./messages.ts";

/** The fields of a request without its id. */
type RequestOf<Message> = Message extends { readonly requestId: number } ? Omit<Message, "requestId"> : never;

export class MainThreadChannel<Message extends { readonly type: string }> {
  #lastRequest = 0;
  #isClosed = false;
  readonly #waiting = new Map<number, PromiseWithResolvers<ReplyValue>>();

  constructor(private readonly post: (message: Message) => void) {}

  send(message: Message): void {
    this.post(message);
  }

  /** Resolves with the reply's value. Throws the MillraceError of the reply, or `internal` when no reply will come. */
  request(fields: RequestOf<Message>): Promise<ReplyValue> {
    if (this.#isClosed) return Promise.reject(closed());
    const requestId = ++this.#lastRequest;
    const reply = Promise.withResolvers<ReplyValue>();
    this.#waiting.set(requestId, reply);
    this.post({ ...fields, requestId } as unknown as Message);
    return reply.promise;
  }

  /** No reply comes any more. The main thread may still execute earlier requests. */
  close(): void {
    this.#isClosed = true;
    for (const reply of this.#waiting.values()) reply.reject(closed());
    this.#waiting.clear();
  }

  receiveReply(reply: Reply): void {
    const waiting = this.#waiting.get(reply.requestId);
    this.#waiting.delete(reply.requestId);
    if ("error" in reply) waiting?.reject(new MillraceError(reply.error.code, reply.error.message));
    else waiting?.resolve(reply.value);
  }
}

function closed(): MillraceError {
  return new MillraceError("internal", "The run is over.");
}

/** The state's record of the worker's sink, through the main thread. */
export function checkpointStore<Message extends { readonly type: string }>(
  main: MainThreadChannel<Message | StoreRequest>,
): CheckpointStore {
  return recordStore(main, "sink");
}

/** The state's record of the worker's source, through the main thread. */
export function sourceStateStore<Message extends { readonly type: string }>(
  main: MainThreadChannel<Message | StoreRequest>,
): SourceStateStore {
  const store = recordStore(main, "source");
  return { load: async () => (await store.load())?.text ?? null, save: (text) => store.save(text) };
}

function recordStore<Message extends { readonly type: string }>(
  main: MainThreadChannel<Message | StoreRequest>,
  owner: RecordOwner,
): CheckpointStore {
  return {
    load: async () =>
      (await main.request({ type: "store.load", owner } as RequestOf<
        Message | StoreRequest
      >)) as SavedRecord | null,
    save: async (text, parts = new Map(), receipts = noReceipts) => {
      const save = { type: "store.save", owner, text, parts, receipts };
      await main.request(save as RequestOf<Message | StoreRequest>);
    },
  };
}

/** What the state has parked of the worker's connector, through the main thread. */
export function parkingStore<Message extends { readonly type: string }>(
  main: MainThreadChannel<Message | ParkingRequest>,
): ParkingStore {
  return parkingStoreOf((call) =>
    main.request({ type: "parking", call } as RequestOf<Message | ParkingRequest>),
  );
}

/** Asks the receipts of the worker's connector in the state, through the main thread. */
export function receiptAsk<Message extends { readonly type: string }>(
  main: MainThreadChannel<Message | ReceiptRequest>,
): (call: ReceiptCall) => Promise<void> {
  return async (call) => {
    await main.request({ type: "receipts", call } as RequestOf<Message | ReceiptRequest>);
  };
}
