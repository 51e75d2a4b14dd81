// What follows from all that is known of a row. Pure.

import { parseLsn } from "../../change/lsn.ts";
import type { ExplainedDelivery, Explanation } from "../../connector/explanation.ts";
import type { KeyedParked } from "../../connector/parked-message.ts";
import type { OpenRequest } from "../../connector/receipts.ts";

export interface KnownOfRow {
  /** The newest first. */
  readonly deliveries: readonly ExplainedDelivery[];
  /** Messages that have the row, and what is known of its change in them. */
  readonly parked: readonly Pick<KeyedParked, "id" | "change">[];
  readonly open: readonly OpenRequest[] | null;
  /** Another replica, which alone knows what is open; absent: there is none. */
  readonly elsewhere?: string | undefined;
  readonly hours: number;
}

type Conclusion = Pick<Explanation, "state" | "summary" | "last_change" | "durable">;
type Change = Explanation["last_change"];

/** In these nothing follows of the change that is known. */
const overStates: ReadonlySet<Explanation["state"]> = new Set([
  "Delivered",
  "Refused",
  "Discarded",
  "Unknown",
]);
type Placed = Pick<NonNullable<Change>, "lsn">;

export function conclude(known: KnownOfRow): Conclusion {
  const changes = [
    ...known.deliveries.map(({ change, idempotency_key: key }) => ({ change, key })),
    ...(known.open ?? []).map(({ last_change: change = null, idempotency_key: key }) => ({
      change: change as Change,
      key,
    })),
    ...known.parked.map(({ change, id }) => ({ change: change as Change, key: id })),
  ];
  const last = changes.reduce((best, each) => (isLater(each.change, best.change) ? each : best), {
    change: null as Change,
    key: null as string | null,
  });
  const stored = stateOf(known);
  const summary = summaryOf(stored, last.change, known);
  // A later change may be on its way there: what became of an earlier one says nothing of that.
  const isUnsure = known.elsewhere !== undefined && overStates.has(stored);
  const state = isUnsure ? "Unknown" : stored;
  const isDelivered = ({ outcome, idempotency_key: key, change }: ExplainedDelivery) =>
    outcome === "delivered" && (last.key === null ? sameChange(change, last.change) : key === last.key);
  const durable = state === "Delivered" && known.deliveries.some(isDelivered);
  const more = isUnsure
    ? ` Replica ${known.elsewhere} runs the connector, and alone can tell whether a later change is on its way: ask it.`
    : "";
  return { state, summary: summary + more, last_change: last.change, durable };
}

/** Of two rows of one transaction the one that is met first counts: it is the newer. */
function isLater(change: Placed | null, than: Placed | null): boolean {
  if (change === null) return false;
  return than === null || parseLsn(change.lsn) > parseLsn(than.lsn);
}

function sameChange(one: Change, other: Change): boolean {
  return one?.lsn === other?.lsn;
}

/** The state of the last change. An earlier one may still be on its way when the last is parked already. */
function stateOf({ deliveries, parked, open }: KnownOfRow): Explanation["state"] {
  const isBeforeParked = ({ last_change: change }: OpenRequest) =>
    change !== undefined && parked.some((message) => isLater(message.change, change));
  const states = new Set(open?.filter((request) => !isBeforeParked(request)).map(({ state }) => state));
  for (const state of ["Retrying", "Sending", "Waiting"] as const) if (states.has(state)) return state;
  if (parked.length > 0) return "Parked";
  switch (newestOf(deliveries)?.outcome) {
    case "delivered":
      return "Delivered";
    case "refused":
    case "exhausted":
      return "Refused";
    case "discarded":
      return "Discarded";
    case "cut":
    case "parked":
      return "Waiting";
    default:
      return "Unknown";
  }
}

/** A message that is discarded amid a retry may be refused once more, or arrive: a receipt has the time at which its attempt began. */
function newestOf(deliveries: KnownOfRow["deliveries"]): ExplainedDelivery | undefined {
  const [newest] = deliveries;
  if (newest?.outcome !== "parked" && newest?.outcome !== "discarded") return newest;
  const ofMessage = deliveries.filter(({ idempotency_key: key }) => key === newest.idempotency_key);
  const gone = ofMessage.find(({ outcome }) => outcome === "discarded");
  return gone ? (ofMessage.find(({ outcome }) => outcome === "delivered") ?? gone) : newest;
}

const operations: Readonly<Record<string, string>> = {
  c: "insert",
  u: "update",
  d: "delete",
  r: "row of a copy",
  t: "truncate",
};

function summaryOf(state: Explanation["state"], change: Change, known: KnownOfRow): string {
  const what = change
    ? `The last known change, ${anOperation(change.op)} that was committed at ${change.committed_at},`
    : "The row";
  const newest = newestOf(known.deliveries);
  switch (state) {
    case "Delivered":
      return `${what} was delivered at ${newest?.at}${placed(newest)}${answered(newest?.status)}.`;
    case "Retrying":
      return `${what} is not delivered: ${retried(known.open)}. It is tried again.`;
    case "Sending":
      return `${what} is being sent.`;
    case "Waiting":
      return `${what} waits: an earlier request of its key is not delivered yet.`;
    case "Parked":
      return `${what} is parked: it was refused, or an earlier change of its key. Mend what refused it, then ask for a retry.`;
    case "Refused":
      return `${what} was refused at ${newest?.at}${answered(newest?.status)}. The connector stopped there: mend the receiver, then start it.`;
    case "Discarded":
      return `${what} was discarded at ${newest?.at}: it is never sent.`;
    case "Unknown":
      return known.hours === 0
        ? "Nothing is known of this row: the connector keeps no receipts. Set limits.receipts_hours to keep them from now on."
        : `There is no receipt of this row from the last ${known.hours} hours. It did not change, or not as far as receipts go back.`;
    default:
      return state satisfies never;
  }
}

function anOperation(op: string): string {
  const name = operations[op] ?? "change";
  return /^[aiu]/.test(name) ? `an ${name}` : `a ${name}`;
}

function placed(delivery: ExplainedDelivery | undefined): string {
  if (!delivery?.kafka) return "";
  const { topic, partition, offset } = delivery.kafka;
  return `, to partition ${partition} of topic ${topic}${offset === null ? "" : ` at offset ${offset}`}`;
}

function answered(status: number | null | undefined): string {
  return status ? ` with ${status}` : "";
}

function retried(open: readonly OpenRequest[] | null): string {
  const { attempts = 0, status, error } = open?.find(({ state }) => state === "Retrying") ?? {};
  const times = attempts === 1 ? "1 attempt" : `${attempts} attempts`;
  return `${times}, the last of them ${status ? `answered with ${status}` : `without an answer (${error ?? "unknown"})`}`;
}
