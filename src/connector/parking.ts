// Parking: messages that a receiver or Kafka refuses for ever, and those that wait behind them. Here is what a run and the state tell each other of
// it. parked-message.ts has what the API shows.

/** Why a message is parked: it was refused, it was tried for as long as it may be, or it waits behind one of its key. */
export type ParkedCause = "refused" | "exhausted" | "behind";

/** One attempt to deliver a message. */
export interface AttemptNote {
  /** RFC 3339. */
  readonly at: string;
  /** Of the answer, where there was one. */
  readonly status?: number;
  /** Why there was no answer. */
  readonly error?: string;
  /** What the receiver said, without secrets. */
  readonly answer?: string;
}

/** What a run keeps in memory of a message. */
export interface ParkedEntry {
  /** The Idempotency-Key of its request. */
  readonly id: string;
  readonly schema: string;
  readonly table: string;
  /** `identityHash` of its rows' keys: later rows that share one wait behind it. */
  readonly hashes: readonly number[];
  /** For each of `hashes`, its first row; null: the first of all. Rows of other keys may be before it. */
  readonly firstRows: readonly number[] | null;
  /** All later rows of the table wait behind it, as nothing tells whose row it is; and it behind all earlier ones. */
  readonly isWide: boolean;
  /** Where each of its rows stands in the order of the source, one at least. Below zero: an earlier version of millrace has parked it. */
  readonly places: readonly bigint[];
  /** Its rows are a copy's. */
  readonly isOfCopy: boolean;
  /** Of the body, before it is compressed. */
  readonly bytes: number;
}

/** A message as it is parked. */
export interface ParkedMessage extends ParkedEntry {
  /** JSON: a list of the rows' keys, each an object of its key's columns. */
  readonly keys: string;
  readonly rows: number;
  /** Of each row: what earlier versions of millrace know it by. */
  readonly versions: readonly number[];
  /** Compressed with zstd. */
  readonly body: Uint8Array;
  /** Commit of the first row; null: a copy's. */
  readonly firstLsn: string | null;
  readonly committedAtMs: number;
  readonly cause: ParkedCause;
  readonly attempts: readonly AttemptNote[];
  /** It was sent, and nobody knows whether it arrived. */
  readonly mayHaveArrived: boolean;
  /** The id of a parked message that it takes the place of, and whose cause and attempts it has then; null or absent: of none. */
  readonly replaces?: string | null;
}

/** An entry that an earlier run has left. */
export interface StoredEntry {
  readonly entry: ParkedEntry;
  /** It is not parked any more, and kept until its rows cannot come again. */
  readonly isSettled: boolean;
  /** It waited behind another one, and was never sent. */
  readonly isUntried: boolean;
  /** It was sent, and nobody knows whether it arrived. */
  readonly mayHaveArrived: boolean;
  /** For how long nobody has tried it, or it has been parked; null: it is not parked, or it was asked for and is to be tried. */
  readonly untriedMs: number | null;
}

/** How a request was cut. It is durable before a part is sent, so that the same request is cut in the same way for ever. */
export interface RequestCut {
  /** The Idempotency-Key of the request. */
  readonly key: string;
  /** The rows of each part, as `partText` writes them. */
  readonly parts: readonly string[];
  /** Of its last row. */
  readonly maxPlace: bigint;
  /** What earlier versions of millrace know that by. */
  readonly maxVersion: number;
  readonly isOfCopy: boolean;
}

/** What a run asks of the parking of its connector. Each is durable when it is answered. */
export type ParkingCall =
  /** Everything that a run has to know, in pages: those after the one whose `next` is `after`. Answered with `ParkedPage`. */
  | { readonly kind: "load"; readonly after: number }
  /** How requests were cut, in pages as above: null is the first one. Answered with `CutPage`. */
  | { readonly kind: "cuts"; readonly after: string | null }
  /** How this request was cut. Answered with `RequestCut`; null: it was not. */
  | { readonly kind: "find-cut"; readonly key: string }
  | { readonly kind: "cut"; readonly cuts: readonly RequestCut[] }
  /** The cuts of these keys are not needed any more. */
  | { readonly kind: "uncut"; readonly keys: readonly string[] }
  /** Those that are there already stay as they are. */
  | { readonly kind: "park"; readonly messages: readonly ParkedMessage[] }
  /** What people ask for, and what they have discarded, both after these times. Answered with `ParkedWishes`. */
  | { readonly kind: "look"; readonly askedSince: string | null; readonly discardedSince: string | null }
  /** All that nobody has asked for are asked for now. */
  | { readonly kind: "ask" }
  /** The compressed bodies of those that are parked still. Answered with `ParkedBodies`. */
  | { readonly kind: "bodies"; readonly ids: readonly string[] }
  | { readonly kind: "delivered"; readonly ids: readonly string[] }
  /** It stays parked. Who asked for it until then asks no more. */
  | {
      readonly kind: "refused";
      readonly id: string;
      readonly attempts: readonly AttemptNote[];
      readonly askedUntil: string | null;
    }
  /** It stays parked, and is asked for: the receiver may be asked again later, by this run or the next one. */
  | { readonly kind: "held"; readonly id: string; readonly attempts: readonly AttemptNote[] }
  /** Nobody asks any more for those that were asked for until then. */
  | { readonly kind: "tried"; readonly askedUntil: string }
  /**
   * Rows of the stream up to this place are durable, and never come again. `version`: what tells that of a message without places.
   * `areCopiesOpen`: rows of a copy that is not made may come again.
   */
  | {
      readonly kind: "sweep";
      readonly place: bigint;
      readonly version: number;
      readonly areCopiesOpen: boolean;
    };

export interface ParkedPage {
  readonly entries: readonly StoredEntry[];
  /** Null: this is the last page. */
  readonly next: number | null;
}

export interface CutPage {
  /** Those of the stream. */
  readonly cuts: readonly RequestCut[];
  /** Keys of requests of copies. There may be many: how they were cut is found when they come again. */
  readonly ofCopies: readonly string[];
  /** Null: this is the last page. */
  readonly next: string | null;
}

export interface ParkedWishes {
  /** Those that are to be sent again, in their order. */
  readonly wanted: readonly string[];
  /** When the last of these was asked for; null: none was. */
  readonly askedUntil: string | null;
  readonly discarded: readonly string[];
  /** When the last of these was discarded; where none was, since when they are told. */
  readonly discardedUntil: string;
}

/** By the ids of their messages. */
export type ParkedBodies = ReadonlyMap<string, Uint8Array>;

export type ParkingAnswer = ParkedPage | CutPage | RequestCut | ParkedWishes | ParkedBodies | null;

/** The rows of a part, as ranges: `0-3,7`. Pure. */
export function partText(rows: readonly number[]): string {
  const ranges: string[] = [];
  for (let at = 0; at < rows.length; ) {
    const first = rows[at]!;
    let last = first;
    while (rows[++at] === last + 1) last++;
    ranges.push(first === last ? `${first}` : `${first}-${last}`);
  }
  return ranges.join(",");
}

/** The rows that `partText` wrote. Pure. */
export function partRows(text: string): number[] {
  return text.split(",").flatMap((range) => {
    const [first = 0, last = first] = range.split("-").map(Number);
    return Array.from({ length: last - first + 1 }, (_, i) => first + i);
  });
}

/** With one more: of all, the first and the last two are kept. Pure. */
export function keptNotes(notes: readonly AttemptNote[], note: AttemptNote): readonly AttemptNote[] {
  return notes.length < 3 ? [...notes, note] : [notes[0]!, notes[2]!, note];
}
