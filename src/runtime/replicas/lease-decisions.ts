// What a replica decides about leases, from the clock and from a view of the installation: when it gives up, what it takes,
// what it gives back. Pure. Every replica decides the same from the same view, so that they need not talk to each other.

import type { FreeLease, InstallationView, ReplicaView } from "../../state/stores/lease-store.ts";
import { pokeMs } from "./look-loop.ts";

const leastMarginMs = 500;
/** After the end of another's lease, so that the state's server has seen it end. */
const afterEndMs = 50;
export function renewalMs(leaseMs: number): number {
  return leaseMs / 3;
}

/** How soon the state is asked again after it did not answer, and how often all look while leases move. */
export function retryMs(leaseMs: number): number {
  return leaseMs / 12;
}

/** How long an answer is waited for: short enough that a lost one leaves time for another try before the deadline. */
export function answerMs(leaseMs: number): number {
  return Math.min(renewalMs(leaseMs), 5_000);
}

/**
 * Until when leases are held that were renewed by a statement sent at `sentAt`. They last longer at the server, by the margin at least:
 * for a clock that goes slower, and for ending the runs.
 */
export function deadlineAfter(sentAt: number, leaseMs: number): number {
  return sentAt + leaseMs - Math.max(leastMarginMs, leaseMs / 6);
}

interface Load {
  readonly replica: ReplicaView;
  /** Connectors that are to run, and those that are not: they are spread too, each kind by itself, for the time when they are started. */
  active: number;
  idle: number;
}
type Kind = "active" | "idle";

/** Replicas that may take leases, in the order that decides between equal ones. */
function loads(view: InstallationView): Load[] {
  return view.replicas
    .filter((replica) => replica.isAlive && replica.weight > 0)
    .sort((a, b) => (a.id < b.id ? -1 : 1))
    .map((replica) => ({ replica, active: replica.active, idle: replica.held - replica.active }));
}

/** The load by weight with one more. */
const loadWithOneMore = (load: Load, kind: Kind) => (load[kind] + 1) / load.replica.weight;

function leastLoaded(among: readonly Load[], kind: Kind): Load | null {
  return among.reduce<Load | null>(
    (least, load) => (least && loadWithOneMore(least, kind) <= loadWithOneMore(load, kind) ? least : load),
    null,
  );
}

function mostLoaded(among: readonly Load[], kind: Kind): Load | null {
  const byWeight = (load: Load) => load[kind] / load.replica.weight;
  return among.reduce<Load | null>(
    (most, load) => (most && byWeight(most) >= byWeight(load) ? most : load),
    null,
  );
}

/**
 * The free leases that this replica takes: each goes to the replica that has the least to run, by weight. What was free for longer than
 * a lease is anyone's: the one whose turn it was does not take it.
 */
export function leasesToTake(view: InstallationView, instance: string, leaseMs: number): string[] {
  const able = loads(view);
  if (!able.some(({ replica }) => replica.instance === instance)) return [];
  const isOurs = ({ active, freeMs }: FreeLease) => {
    const kind = active ? "active" : "idle";
    const taker = leastLoaded(able, kind)!;
    taker[kind] += 1;
    return taker.replica.instance === instance || freeMs > leaseMs;
  };
  const inOrder = [...view.free].sort((a, b) => (a.connectorId < b.connectorId ? -1 : 1));
  return inOrder.filter(isOurs).map(({ connectorId }) => connectorId);
}

/** What a replica gives back, and to whom; null: to nobody in particular. */
export interface Gift {
  readonly kind: Kind;
  readonly to: ReplicaView | null;
}

/**
 * Whether this replica gives a connector back, so that the load becomes more even: the one with the highest load by weight does, one
 * connector at a time. With equal weights, a difference of one stays. A replica of weight 0 keeps nothing. While leases are free nobody
 * gives: so at most one connector is on its way.
 */
export function leaseToGive(view: InstallationView, instance: string): Gift | null {
  const self = view.replicas.find((replica) => replica.instance === instance);
  if (!self?.isAlive || self.held === 0) return null;
  if (self.weight === 0) return { kind: self.active > 0 ? "active" : "idle", to: null };
  if (view.free.length > 0) return null;
  const move = moves(view).find(({ from }) => from.instance === instance);
  return move ? { kind: move.kind, to: move.to } : null;
}

interface Move {
  readonly kind: Kind;
  readonly from: ReplicaView;
  readonly to: ReplicaView;
}

/** What makes the load more even: one of each kind at most. */
function moves(view: InstallationView): Move[] {
  const able = loads(view);
  return (["active", "idle"] as const).flatMap((kind) => {
    const from = mostLoaded(able, kind);
    const to = leastLoaded(able, kind);
    if (!from || !to) return [];
    // Whole numbers: what is equal stays equal.
    const isBetter = from[kind] * to.replica.weight > (to[kind] + 1) * from.replica.weight;
    return isBetter ? [{ kind, from: from.replica, to: to.replica }] : [];
  });
}

/** How long until the next look. */
export function nextLookMs(view: InstallationView, untilRenewalMs: number, leaseMs: number): number {
  const untilEnd = view.nextEndMs === null ? Number.POSITIVE_INFINITY : view.nextEndMs + afterEndMs;
  // Somebody is to take or to give: also where no notice comes, it shall not wait for renewals.
  const isMoving = view.free.length > 0 || moves(view).length > 0;
  const whileMoving = isMoving ? retryMs(leaseMs) : Number.POSITIVE_INFINITY;
  return Math.max(pokeMs, Math.min(untilRenewalMs, untilEnd, whileMoving));
}
