// What the keeper tells people: one line for each thing that moved, and why.

import { termsOfLife } from "../../connector/term.ts";
import type { MillraceError } from "../../errors/millrace-error.ts";
import type { Log } from "../../log.ts";
import type { ReplicaSelf, ReplicaView, Terms } from "../../state/stores/lease-store.ts";
import { renewalMs } from "./lease-decisions.ts";

/** More are not named in a line. */
const mostNamed = 20;

export class LeaseLog {
  /** What is wrong with the state, as told last; null: nothing. */
  #trouble: string | null = null;
  /** When each replica was seen alive last, by its instance. */
  readonly #seenAlive = new Map<string, number>();

  constructor(
    private readonly log: Log,
    private readonly self: ReplicaSelf,
  ) {}

  joined(): void {
    const { id, instance, weight, leaseMs } = this.self;
    const fields = { replica: id, instance, weight, lease_seconds: leaseMs / 1000 };
    this.log.info(fields, "joined the installation");
  }

  left(): void {
    this.log.info({ replica: this.self.id }, "left the installation: other replicas run its connectors");
  }

  /** Before the start; once. */
  waits(error: MillraceError): void {
    if (this.#trouble === null) this.log.warn({ error }, "waits for the replica that has the same id");
    this.#trouble = error.message;
  }

  /** Once for each trouble, however often it is met. */
  failed(error: MillraceError): void {
    if (this.#trouble === error.message) return;
    this.#trouble = error.message;
    if (error.code === "invalid_setting") {
      this.log.error({ error }, "this replica runs nothing for now, and keeps trying to join");
    } else this.log.warn({ error }, "the state does not answer about leases: trying again");
  }

  answered(): void {
    if (this.#trouble !== null) this.log.info("the state answers about leases again");
    this.#trouble = null;
  }

  /** `before`: how many leases were held already. */
  took(terms: Terms, replicas: readonly ReplicaView[], now: number): void {
    const dead = this.#diedLately(replicas, now);
    const first = [...terms].filter(([, term]) => isFirst(term)).map(([id]) => id);
    const next = [...terms].filter(([, term]) => !isFirst(term)).map(([id]) => id);
    if (first.length > 0) this.log.info(named(first), `took ${connectors(first)} that had no replica yet`);
    if (next.length === 0) return;
    if (dead.length === 0) this.log.info(named(next), `took ${connectors(next)} that nobody ran`);
    else {
      this.log.warn(
        { ...named(next), from: dead },
        `took ${connectors(next)} from ${dead.join(" and ")}, dead`,
      );
    }
  }

  /** A lease that a take without an answer got. */
  found(connector: string): void {
    this.log.info({ connector }, "took a connector: the state's answer was lost, and the renewal told it");
  }

  gave(connector: string, to: ReplicaView | null): void {
    const why = to ? `so that ${to.id}, which has fewer, runs it` : "since this replica is to run none";
    this.log.info({ connector, to: to?.id }, `giving a connector back, ${why}`);
  }

  notGivenBack(connector: string, error: MillraceError): void {
    this.log.error({ connector, error }, "a connector did not stop in order when it was given back");
  }

  revoked(connector: string): void {
    this.log.info(
      { connector },
      "no longer runs the connector: it was removed, or another replica has its lease",
    );
  }

  /** All leases were given up, so late after the deadline. */
  expired(ids: readonly string[], silentMs: number, lateMs: number): void {
    const stop = `${connectors(ids)} stop here, and other replicas may run them`;
    // The timer of the deadline is punctual unless nothing ran at all.
    const why =
      lateMs > renewalMs(this.self.leaseMs)
        ? `this process, or its machine, stood still, and the leases were not renewed for ${seconds(silentMs)}`
        : `the state did not answer for ${seconds(silentMs)}`;
    this.log.warn(named(ids), `${why}: ${stop}`);
  }

  forgot({ id, seenAt }: ReplicaView): void {
    this.log.warn({ replica: id, seen_at: seenAt }, "a replica is gone: it has not renewed for long");
  }

  /** The state did not say which of them it has removed. */
  mayHaveForgotten(lost: readonly ReplicaView[]): void {
    const replicas = lost.slice(0, mostNamed).map(({ id }) => id);
    this.log.warn({ replicas }, "replicas that are lost may have been removed, and no alert may tell of it");
  }

  /** Tells who is alive now, so that `took` can name who was until lately. */
  saw(replicas: readonly ReplicaView[], now: number): void {
    for (const { instance, isAlive } of replicas) if (isAlive) this.#seenAlive.set(instance, now);
    const known = new Set(replicas.map(({ instance }) => instance));
    for (const instance of this.#seenAlive.keys()) if (!known.has(instance)) this.#seenAlive.delete(instance);
  }

  #diedLately(replicas: readonly ReplicaView[], now: number): string[] {
    const wasAlive = ({ instance }: ReplicaView) =>
      now - (this.#seenAlive.get(instance) ?? Number.NEGATIVE_INFINITY) <= this.self.leaseMs;
    return replicas.filter((replica) => !replica.isAlive && wasAlive(replica)).map(({ id }) => id);
  }
}

/** The connector had no holder yet. */
const isFirst = (term: number) => term % termsOfLife === 1;
const connectors = ({ length }: readonly string[]) => `${length} connector${length === 1 ? "" : "s"}`;
const named = (ids: readonly string[]) => ({ connectors: ids.slice(0, mostNamed) });
const seconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`;
