// Sends parked messages again, those of a key one after the other in their order, with the keys that they had. A message leaves the parking
// once it is durable that it was delivered. What waits behind it follows. One that is refused again stays, and all behind it.

import { untilAborted } from "../../../concurrency/until-aborted.ts";
import { Waiters } from "../../../concurrency/waiters.ts";
import type { ParkedEntry } from "../../../connector/parking.ts";
import { ParkedAttempts, type ParkedAttemptsOptions } from "./parked-attempts.ts";
import type { ParkedEntries } from "./parked-entries.ts";
import type { ParkedWait } from "./parked-warning.ts";
import type { RetryView } from "./parking.ts";
import type { ParkingStore } from "./parking-store.ts";

export interface ParkedRetryOptions extends ParkedAttemptsOptions {
  readonly entries: ParkedEntries;
  /** Resolves when the message is in the state. */
  readonly stored: (id: string) => Promise<void>;
  readonly store: ParkingStore;
  /** Messages on their way at once. */
  readonly maxInFlight: number;
  /** All are asked for so often; 0: never. */
  readonly everyMs: number;
  /** The retry of an earlier run met its refusal, and was ended by it: it goes along with no other message. Absent: none was. */
  readonly isHeld?: (entry: ParkedEntry) => boolean;
  /** What has taken the place of the message with this id, and is parked. Absent: nothing ever does. */
  readonly replacement?: (id: string) => ParkedEntry | null;
  /** Messages of a table are sent again later, as the receiver asked. */
  readonly held?: (wait: ParkedWait) => void;
  /** Called after each look for what people ask for. */
  readonly looked: () => void;
  /** The state does not take what becomes of a message. */
  readonly failed: (error: unknown) => void;
}

/** How often people's wishes are looked for while something is parked. */
const lookMs = 1_000;
/** A row waits for its place in the parking for so long, where the receiver asks for patience: a limit of its rate is no reason to stop. */
const mostHeldMs = 5 * 60_000;

export class ParkedRetry implements RetryView {
  /** Asked for, and not sent yet. */
  readonly #wanted = new Set<ParkedEntry>();
  /** On their way. Aborted: it was discarded meanwhile, and is not tried again. */
  readonly #sending = new Map<ParkedEntry, AbortController>();
  /** They can go now. */
  readonly #ready = new Set<ParkedEntry>();
  /** They can go now, and waited behind one that has left. They go before `#ready`, so that a key that is begun is soon free. */
  readonly #following = new Set<ParkedEntry>();
  /** They can go once the receiver may be asked again. */
  readonly #held = new Set<ParkedEntry>();
  /** They can go once the stream has come to them. */
  readonly #early = new Set<ParkedEntry>();
  /** When the last of those that are wanted was asked for. */
  #askedUntil: string | null = null;
  /** When the last of those that were discarded was; null: nobody has looked yet. */
  #discardedUntil: string | null = null;
  /** It is being noted that all were tried. */
  #noting: Promise<void> | null = null;
  #isStopping = false;
  readonly #waiters = new Waiters();
  readonly #stop = new AbortController();
  /** Ends what is being waited for, but no attempt. */
  readonly #pauses = new AbortController();
  #watching: Promise<void> | null = null;
  /** Null: there was none in this session. */
  #lastRoundMs: number | null = null;

  readonly #attempts: ParkedAttempts;

  constructor(private readonly options: ParkedRetryOptions) {
    this.#attempts = new ParkedAttempts(options);
  }

  /** Messages are being sent again, and not only once the receiver may be asked again: nothing waits for that. */
  get isActive(): boolean {
    return this.#sending.size + this.#ready.size + this.#following.size + this.#early.size > 0;
  }

  get makesSpace(): boolean {
    return this.isActive || this.#held.values().some((entry) => this.#attempts.heldMs(entry) <= mostHeldMs);
  }

  /** When the last of those that are wanted was asked for; null: nobody has asked. */
  get askedUntil(): string | null {
    return this.#askedUntil;
  }

  /** Nothing is sent again any more. */
  get isOver(): boolean {
    return this.#isStopping;
  }

  get awaitsStream(): boolean {
    return this.#early.size > 0 && this.#sending.size + this.#ready.size === 0;
  }

  reached(): void {
    if (this.#early.size === 0) return;
    for (const entry of this.#early) if (this.options.entries.isReached(entry)) this.#ready.add(entry);
    for (const entry of this.#ready) this.#early.delete(entry);
    this.#pump();
  }

  isUnderWay(entry: ParkedEntry): boolean {
    return this.#wanted.has(entry) || this.#sending.has(entry);
  }

  isSending(entry: ParkedEntry): boolean {
    return this.#sending.has(entry);
  }

  /** Resolves when something has become of a message, or nothing is sent again any more. Throws the signal's reason. */
  async change(signal: AbortSignal): Promise<void> {
    await untilAborted(this.#waiters.change(), signal);
  }

  /** Looks for what people ask for, now and then while something is parked. Resolves after the first look. Never throws. */
  async watch(): Promise<void> {
    if (this.#watching || this.#isStopping || this.options.entries.parked.size === 0) return;
    const looked = Promise.withResolvers<void>();
    this.#watching = this.#watch(looked.resolve).finally(() => {
      this.#watching = null;
    });
    await looked.promise;
  }

  /** Begins nothing new. Resolves when what is under way has ended, or `signal` has aborted it. */
  async stop(signal: AbortSignal): Promise<void> {
    this.#isStopping = true;
    this.#pauses.abort(new Error("stopped"));
    for (const entries of [this.#ready, this.#following, this.#held, this.#early, this.#wanted])
      entries.clear();
    this.#waiters.wake();
    const abort = () => this.#stop.abort(signal.reason);
    signal.addEventListener("abort", abort, { once: true });
    if (signal.aborted) abort();
    await untilAborted(this.#idle(), signal).catch(() => undefined);
    this.#stop.abort(new Error("stopped"));
    signal.removeEventListener("abort", abort);
  }

  async #idle(): Promise<void> {
    while (this.#sending.size > 0) await this.#waiters.change();
  }

  async #watch(looked: () => void): Promise<void> {
    const { entries, sleep } = this.options;
    try {
      while (!this.#isStopping && entries.parked.size > 0) {
        await this.#look();
        looked();
        this.options.looked();
        await sleep(lookMs, this.#pauses.signal);
      }
    } catch (error) {
      if (!this.#isStopping) this.options.failed(error);
    } finally {
      looked();
    }
  }

  async #look(): Promise<void> {
    const { entries, store, everyMs, monotonic } = this.options;
    await this.#noting;
    // An earlier session may have made the last one: a round has tried all that could be sent.
    this.#lastRoundMs ??= monotonic() - entries.untriedMs;
    if (everyMs > 0 && monotonic() - this.#lastRoundMs >= everyMs) {
      this.#lastRoundMs = monotonic();
      await store.ask();
    }
    const wishes = await store.look(this.#askedUntil, this.#discardedUntil);
    const { wanted, askedUntil } = wishes;
    this.#discardedUntil = wishes.discardedUntil;
    for (const id of wishes.discarded) this.#drop(id);
    for (const entry of entries.takeReleased()) if (entries.parked.get(entry.id)) this.#want(entry);
    if (askedUntil !== null) this.#askedUntil = askedUntil;
    for (const id of wanted) {
      const entry = entries.parked.get(id) ?? this.#replacement(id);
      if (entry) this.#want(entry);
    }
    for (const entry of this.#held) if (this.#attempts.heldMs(entry) === 0) this.#ready.add(entry);
    for (const entry of this.#ready) this.#held.delete(entry);
    this.#pump();
  }

  /** It was discarded. An attempt that is under way ends as it ends. What took its place before that was known goes as what waits behind it. */
  #drop(id: string): void {
    const entry = this.options.entries.parked.get(id);
    if (!entry) {
      const replacement = this.#replacement(id);
      if (replacement) this.#want(replacement);
      return;
    }
    const sending = this.#sending.get(entry);
    if (sending) sending.abort(new Error("discarded"));
    else this.#leave(entry);
  }

  /** The state may not know yet that another message has taken the place of this one. */
  #replacement(id: string): ParkedEntry | null {
    const { entries, replacement } = this.options;
    return entries.has(id) ? null : (replacement?.(id) ?? null);
  }

  /** What has to go before it goes first. */
  #want(entry: ParkedEntry): void {
    if (this.#isStopping || this.#sending.has(entry)) return;
    this.#wanted.add(entry);
    // Also where it is wanted already: what has to go before it may have been refused since.
    for (const first of this.options.entries.parked.firstOfKeys(entry)) this.#go(first);
  }

  /** Nothing has to go before it. `queue`: where it waits for its turn. */
  #go(entry: ParkedEntry, queue = this.#ready): void {
    if (this.#isStopping || this.#sending.has(entry)) return;
    if (!this.#wanted.has(entry) && this.options.isHeld?.(entry)) return;
    this.#wanted.add(entry);
    const isReached = this.options.entries.isReached(entry);
    if (isReached) this.#early.delete(entry);
    (isReached ? queue : this.#early).add(entry);
  }

  #pump(): void {
    while (this.#sending.size < this.options.maxInFlight && !this.#isStopping) {
      const [entry] = this.#following.size > 0 ? this.#following : this.#ready;
      if (!entry) break;
      for (const entries of [this.#following, this.#ready]) entries.delete(entry);
      // A row that came again while it waited for the stream may be parked before it.
      if (!this.options.entries.parked.isFirst(entry)) {
        this.#want(entry);
        continue;
      }
      if (this.#attempts.heldMs(entry) > 0) {
        this.#held.add(entry);
        continue;
      }
      this.#wanted.delete(entry);
      if (!this.options.entries.parked.get(entry.id)) continue;
      const sending = new AbortController();
      this.#sending.set(entry, sending);
      void this.#send(entry, sending.signal);
    }
    if (!this.isActive && this.#held.size === 0) this.#roundEnds();
  }

  /** What is still wanted waits behind something that was refused. */
  #roundEnds(): void {
    const askedUntil = this.#askedUntil;
    this.#wanted.clear();
    this.#askedUntil = null;
    this.#waiters.wake();
    if (askedUntil === null || this.#isStopping) return;
    this.#noting = this.options.store.tried(askedUntil).catch(this.options.failed);
  }

  async #send(entry: ParkedEntry, discarded: AbortSignal): Promise<void> {
    const { store } = this.options;
    try {
      await this.options.stored(entry.id);
      const body = await store.body(entry);
      if (body === null) this.#leave(entry);
      else {
        const bytes = await Bun.zstdDecompress(body);
        const pauses = AbortSignal.any([this.#pauses.signal, discarded]);
        const { kind, notes } = await this.#attempts.deliver(entry, bytes, pauses, this.#stop.signal);
        if (kind === "delivered") await store.delivered([entry.id]);
        else if (kind === "held") await store.held(entry.id, notes);
        // What is cut short is still asked for, and the next run does it.
        else if (!this.#isStopping) await store.refused(entry.id, notes, this.#askedUntil);
        if (kind === "delivered" || discarded.aborted) this.#leave(entry);
        else if (kind === "held" && !this.#isStopping) this.#hold(entry, notes.at(-1)?.at);
      }
    } catch (error) {
      if (!this.#stop.signal.aborted) this.options.failed(error);
    } finally {
      this.#sending.delete(entry);
      this.#waiters.wake();
      this.#pump();
    }
  }

  /** `triedAt`: when the receiver asked for that; absent: another message met it. */
  #hold(entry: ParkedEntry, triedAt: string | undefined): void {
    this.#wanted.add(entry);
    this.#held.add(entry);
    const ms = this.#attempts.heldMs(entry);
    if (triedAt) this.options.held?.({ table: `${entry.schema}.${entry.table}`, ms, triedAt });
  }

  /** It is parked no more: what waited behind it follows. */
  #leave(entry: ParkedEntry): void {
    const { entries } = this.options;
    entries.settle(entry);
    for (const waiting of [this.#wanted, this.#held, this.#early]) waiting.delete(entry);
    for (const freed of entries.parked.freed(entry)) this.#go(freed, this.#following);
    this.#waiters.wake();
  }
}
