// Receipts of messages that are committed together with the record. The state is no part of a transaction of Kafka, so they are staged there
// before the commit, under an id that the record bears. A commit that is known makes them receipts. Where that is not known any more, as
// everything died, the next run reads the record: staged under its id they were committed, and under another one they were not.

import type { OpenRequest, RowQuestion } from "../../../connector/receipts.ts";
import type { SavedRecord } from "../../../connector/saved-record.ts";
import { unsavedRequests } from "../../delivery/receipts/open-requests.ts";
import { decodeBody, encodePiece } from "../../delivery/receipts/receipt-body.ts";
import type { ReceiptBook } from "../../delivery/receipts/receipt-book.ts";
import type { CheckpointStore } from "../../sink.ts";
import type { ProducerLog } from "../produce/producer-log.ts";
import type { MessageReceipts } from "./message-receipts.ts";

export interface StagedReceiptsOptions {
  readonly gathered: MessageReceipts;
  readonly book: ReceiptBook;
  /** Saves what is in the book, too. */
  readonly record: CheckpointStore;
  readonly log: Pick<ProducerLog, "seal" | "waitFor">;
  readonly newId: () => string;
  /** In ms since 1970-01-01 UTC, and of a clock that never goes back. */
  readonly nowMs: () => number;
  readonly monotonic: () => number;
}

interface Piece {
  readonly name: string;
  readonly body: Uint8Array;
}

interface Commit {
  readonly id: string;
  readonly pieces: Piece[];
  count: number;
  /** All of them are staged. */
  ready: Promise<unknown>;
}

const namePrefix = "receipts ";
/** A transaction's receipts are staged in pieces, one after so many rows. */
const pieceRows = 65_536;

export class StagedReceipts {
  /** The one that gathers; null: it has nothing. */
  #commit: Commit | null = null;
  /** Staged, or about to be, and not known to be committed. */
  readonly #open = new Set<Commit>();
  #lastCommit: string | null = null;
  /** Names of what is staged, and is in the book or was dropped. */
  readonly #settled = new Set<string>();
  /** What the state has of the sink beside; null: nothing has begun. */
  #text: (() => string) | null = null;

  constructor(private readonly options: StagedReceiptsOptions) {}

  /** The last commit that had receipts: every record bears it. */
  get lastCommit(): string | null {
    return this.#lastCommit;
  }

  /** `stored`: read when every earlier transaction was decided. `committed`: the id that the record bears. */
  async begin(stored: SavedRecord | null, committed: string | null, text: () => string): Promise<void> {
    this.#text = text;
    this.#lastCommit = committed;
    for (const [name, body] of stagedIn(stored)) {
      if (committed !== null && isOf(name, committed)) {
        this.#keep({ name, body: new Uint8Array(Buffer.from(body, "base64")) });
        await this.confirm();
      } else this.#settled.add(name);
    }
    if (this.#settled.size > 0) await this.confirm();
  }

  /** A message is about to be added: what was added before it is staged when it is much. It is sent after that: memory is bounded. */
  makeRoom(): void {
    if (this.options.gathered.rows < pieceRows) return;
    this.#stageGathered();
    if (this.#commit) this.options.log.waitFor(this.#commit.ready);
  }

  /** What is added to the log from here on is sent when all receipts of what was added before are staged. */
  stage(): Commit | null {
    this.#stageGathered();
    const commit = this.#commit;
    if (!commit) return null;
    this.#commit = null;
    this.#lastCommit = commit.id;
    this.options.log.waitFor(commit.ready);
    return commit;
  }

  /** A small one's are stored with the next save, or soon; those of a large one before the next may begin: memory is bounded. */
  async committed(commit: Commit): Promise<void> {
    const { pieces } = commit;
    this.#open.delete(commit);
    for (const piece of pieces) {
      this.#keep(piece);
      if (pieces.length > 1) await this.confirm();
    }
  }

  /** Stores what is committed. Before `begin` that is nothing, and a save would erase what the state has. */
  async confirm(): Promise<void> {
    if (this.#text) await this.#save([]);
  }

  /** Messages of the row whose transaction is not known to be committed. */
  find(question: RowQuestion): readonly OpenRequest[] {
    const pieces = [...this.#open].flatMap((commit) => commit.pieces);
    return pieces.flatMap(({ body }) => unsavedRequests([...decodeBody(body)], question));
  }

  #keep({ name, body }: Piece): void {
    for (const receipt of decodeBody(body)) this.options.book.add(receipt);
    this.#settled.add(name);
  }

  #stageGathered(): void {
    const { gathered, log, newId, nowMs, monotonic } = this.options;
    const taken = gathered.take();
    if (!taken) return;
    this.#commit ??= { id: newId(), pieces: [], count: 0, ready: Promise.resolve() };
    const commit = this.#commit;
    this.#open.add(commit);
    const name = `${namePrefix}${commit.id} ${commit.count++}`;
    const atMs = nowMs();
    const beganMs = monotonic();
    const put = log.seal().then(async () => {
      const piece = { name, body: encodePiece(taken.receipts(atMs, Math.round(monotonic() - beganMs))) };
      commit.pieces.push(piece);
      await this.#save([piece]);
    });
    commit.ready = Promise.all([commit.ready, put]);
    // It is the failure of the commit that waits for it.
    commit.ready.catch(() => undefined);
  }

  /** All or nothing: what is staged goes in the statement that stores it as receipts. */
  async #save(pieces: readonly Piece[]): Promise<void> {
    const settled = [...this.#settled];
    const parts = new Map<string, string | null>(settled.map((name) => [name, null]));
    for (const { name, body } of pieces) parts.set(name, Buffer.from(body).toString("base64"));
    await this.options.record.save(this.#text!(), parts);
    for (const name of settled) this.#settled.delete(name);
  }
}

/** What another configuration of the connector has staged goes: nobody asks what became of it. */
export async function dropStaged(record: CheckpointStore, stored: SavedRecord | null): Promise<void> {
  const names = stagedIn(stored).map(([name]) => [name, null] as const);
  if (stored && names.length > 0) await record.save(stored.text, new Map(names));
}

/** In the order in which they were staged. */
function stagedIn(stored: SavedRecord | null): readonly (readonly [name: string, body: string])[] {
  const staged = [...(stored?.parts ?? [])].filter(([name]) => name.startsWith(namePrefix));
  return staged.toSorted(([a], [b]) => a.localeCompare(b, "en", { numeric: true }));
}

function isOf(name: string, commit: string): boolean {
  return name.startsWith(`${namePrefix}${commit} `);
}
