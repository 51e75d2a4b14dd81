// What an alert says: to a program in `data`, to people in `text`. Pure. It leaves the house, so no row value is in it.

import type { SetAsideTable, Status } from "../connector/status.ts";
import { withoutValues } from "../errors/row-in-reason.ts";

const alertTypes = [
  "connector.failed",
  "connector.retrying",
  "connector.recovered",
  "source.log_in_danger",
  "table.set_aside",
  "task.failed",
  "verify.differs",
  "message.parked",
  "replica.lost",
] as const;
export type AlertType = (typeof alertTypes)[number];

export interface Alert {
  readonly type: AlertType;
  /** When what it tells of began. */
  readonly atMs: number;
  /** `connector_id` is left out where it is about no connector. */
  readonly data: Readonly<Record<string, unknown>> & { readonly connector_id?: string };
  /** One line, without the mark-up of chat services. */
  readonly text: string;
}

/** How much WAL a slot retains, and why that is dangerous; `warning` null: it is not. */
export interface SlotDanger {
  readonly retainedBytes: number;
  readonly safeBytes: number | null;
  readonly warning: string | null;
}

export interface FailedTask {
  readonly id: string;
  readonly schema: string;
  readonly name: string;
  readonly reason: string;
}

/** A table that a verification has found to differ from its source. */
export interface DifferingTable {
  readonly id: string;
  readonly schema: string;
  readonly name: string;
  /** Rows. */
  readonly differing: number;
  readonly repaired: number;
}

/** Messages of a table that were parked since the last alert. */
export interface ParkedCount {
  readonly schema: string;
  readonly name: string;
  readonly messages: number;
}

/** A replica that has died, or cannot reach the state. */
export interface LostReplica {
  readonly id: string;
  readonly host: string;
  readonly version: string;
  /** When it gave its last sign of life. */
  readonly seenAt: Date;
}

/** At most one alert of a kind, per connector, in this time. */
export const windowMs = 15 * 60_000;
/** Chat services cut or refuse longer messages. `data` has the whole reason. */
const maxTextLength = 1_000;
/** Named in one alert; the rest are counted. */
const maxListed = 20;

export function failedAlert(connector: string, atMs: number, state: Status["state"], reason: string): Alert {
  const text = `Connector ${connector} has failed: ${reason}`;
  return alert("connector.failed", connector, atMs, text, { state: phaseOf(state), reason });
}

export function retryingAlert(
  connector: string,
  atMs: number,
  state: Status["state"],
  retry: {
    readonly attempt: number;
    readonly reason: string;
    readonly forMs: number;
    readonly flaps: boolean;
  },
): Alert {
  const { attempt, reason, forMs, flaps } = retry;
  const minutes = Math.floor(forMs / 60_000);
  const text = flaps
    ? `Connector ${connector} has been failing again and again for ${minutes} minutes, and works in between: ${reason}`
    : `Connector ${connector} has been trying again for ${minutes} minutes (attempt ${attempt}): ${reason}`;
  return alert("connector.retrying", connector, atMs, text, { state: phaseOf(state), attempt, reason });
}

export function recoveredAlert(
  connector: string,
  atMs: number,
  state: Status["state"],
  from: "failed" | "retrying",
): Alert {
  const text = `Connector ${connector} has recovered.`;
  return alert("connector.recovered", connector, atMs, text, {
    state: phaseOf(state),
    recovered_from: `connector.${from}`,
  });
}

export function logAlert(connector: string, atMs: number, slot: SlotDanger): Alert {
  const reason = slot.warning ?? "";
  const text = `The source of connector ${connector} keeps much of its log: ${reason}`;
  const bytes = { retained_bytes: slot.retainedBytes, safe_bytes: slot.safeBytes };
  return alert("source.log_in_danger", connector, atMs, text, { ...bytes, reason });
}

export function tablesAlert(connector: string, atMs: number, tables: readonly SetAsideTable[]): Alert {
  const named = tables.slice(0, maxListed).map(({ reason, ...table }) => ({
    ...table,
    reason: withoutValues(reason),
  }));
  const [first] = named;
  const what = tables.length === 1 ? `Table ${nameOf(named)} is` : `${tables.length} tables are`;
  const text = `${what} set aside by connector ${connector}: ${first?.reason ?? ""}`;
  return alert("table.set_aside", connector, atMs, text, { count: tables.length, tables: named });
}

export function tasksAlert(connector: string, atMs: number, tasks: readonly FailedTask[]): Alert {
  const named = tasks.slice(0, maxListed).map((task) => ({ ...task, reason: withoutValues(task.reason) }));
  const [first] = named;
  const what = tasks.length === 1 ? `The task of table ${nameOf(named)}` : `${tasks.length} tasks`;
  const text = `${what} by connector ${connector} failed: ${first?.reason ?? ""}`;
  return alert("task.failed", connector, atMs, text, { count: tasks.length, tasks: named });
}

export function differencesAlert(connector: string, atMs: number, tables: readonly DifferingTable[]): Alert {
  const [first] = tables;
  const repaired = first && first.repaired > 0 ? ` ${first.repaired} were repaired.` : "";
  const text =
    tables.length === 1
      ? `Table ${nameOf(tables)} at the sink of connector ${connector} differs from its source in ${first?.differing} rows.${repaired}`
      : `${tables.length} tables at the sink of connector ${connector} differ from their source.`;
  return alert("verify.differs", connector, atMs, text, {
    count: tables.length,
    tables: tables.slice(0, maxListed),
  });
}

export function parkedAlert(connector: string, atMs: number, parked: readonly ParkedCount[]): Alert {
  const named = parked.slice(0, maxListed);
  const count = parked.reduce((sum, { messages }) => sum + messages, 0);
  const [first] = named;
  const what = count === 1 ? "A message" : `${count} messages`;
  const of = parked.length === 1 ? `${first?.schema}.${first?.name}` : `${parked.length} tables`;
  const text =
    `${what} of ${of} ${count === 1 ? "was" : "were"} parked by connector ${connector}: ` +
    `${count === 1 ? "it was" : "some were"} refused. "millrace parked list ${connector}" shows what is parked.`;
  return alert("message.parked", connector, atMs, text, { count, tables: named });
}

export function replicasAlert(atMs: number, replicas: readonly LostReplica[]): Alert {
  const named = replicas.slice(0, maxListed).map(({ seenAt, ...replica }) => {
    return { ...replica, seen_at: seenAt.toISOString() };
  });
  const [first] = named;
  const what =
    replicas.length === 1
      ? `Replica ${first?.id} on ${first?.host} is lost. It was last seen`
      : `${replicas.length} replicas are lost: ${named.map(({ id }) => id).join(", ")}. The first was last seen`;
  const text = `${what} at ${first?.seen_at}; others take over what it held.`;
  const data = { count: replicas.length, replicas: named };
  return { type: "replica.lost", atMs, data, text: plainLine(text) };
}

/** The body of the request: what a chat service reads, `text`, stands beside what a program reads. */
export function alertBody({ type, atMs, data, text }: Alert): Uint8Array<ArrayBuffer> {
  const timestamp = new Date(atMs).toISOString();
  return new TextEncoder().encode(JSON.stringify({ type, timestamp, data, text }));
}

function alert(
  type: AlertType,
  connector: string,
  atMs: number,
  text: string,
  facts: Readonly<Record<string, unknown>>,
): Alert {
  const { reason, ...others } = facts;
  const told = typeof reason === "string" ? { reason: withoutValues(reason) } : {};
  return { type, atMs, data: { connector_id: connector, ...others, ...told }, text: plainLine(text) };
}

/**
 * One line without `<` and `>`. A server's error text may quote what others wrote, and `<!channel>` would call everyone
 * in a Slack channel.
 */
function plainLine(text: string): string {
  const line = withoutValues(text).replace(/\s+/g, " ").replaceAll("<", "‹").replaceAll(">", "›").trim();
  return line.length <= maxTextLength ? line : `${line.slice(0, maxTextLength - 1)}…`;
}

function nameOf([only]: readonly { readonly schema: string; readonly name: string }[]): string {
  return only ? `${only.schema}.${only.name}` : "";
}

function phaseOf(state: Status["state"]): string {
  return Object.keys(state)[0] ?? "";
}
