// Who holds what: as the state says, as each replica says, and as sources and sinks see it.

import { pollUntil } from "../../../src/demo/poll-until.ts";
import { oneOf, type Random } from "../random.ts";
import type { ChaosReplica } from "./chaos-replica.ts";
import type { ReplicaChaosStage } from "./replica-chaos-stage.ts";
import type { Held } from "./takeovers.ts";

/** After the last fault: a joined one has its share within a minute, and this machine may be slow. */
const settleMs = 90_000;

interface Lease {
  readonly connector_id: string;
  readonly term: string;
  /** The name of the replica that has it; null: nobody, or one that has not renewed in time. */
  readonly replica: string | null;
}

const leasesSql = `
select l.connector_id, l.term::text, r.id as replica from millrace.leases l
left join millrace.replicas r on r.instance = l.holder and l.ends_at > clock_timestamp()
order by 1`;

interface Shown {
  readonly connector: { readonly id: string };
  readonly status: {
    readonly replica?: string;
    readonly state: Readonly<Record<string, unknown>>;
    readonly retry?: unknown;
  };
}

export async function readLeases({ state }: ReplicaChaosStage): Promise<readonly Lease[]> {
  return await state.query<Lease & Record<string, unknown>>(leasesSql);
}

export async function heldBy(stage: ReplicaChaosStage, { name }: ChaosReplica): Promise<Held[]> {
  return (await readLeases(stage))
    .filter(({ replica }) => replica === name)
    .map(({ connector_id, term }) => ({ connectorId: connector_id, term: Number(term) }));
}

/** Null: nobody holds it for the moment, or a replica that is no longer among these. */
export async function holderOf(stage: ReplicaChaosStage, connectorId: string): Promise<ChaosReplica | null> {
  const lease = (await readLeases(stage)).find(({ connector_id }) => connector_id === connectorId);
  return stage.replicas.find(({ name }) => name === lease?.replica) ?? null;
}

/** Of a connector that is chosen; any replica where nobody holds it. */
export async function someHolder(stage: ReplicaChaosStage, random: Random): Promise<ChaosReplica> {
  const id = oneOf(random, stage.connectorIds);
  return (await holderOf(stage, id)) ?? oneOf(random, stage.replicas);
}

/** Each connector streams, at one living replica, of which all replicas say the same; and the connectors are spread evenly. */
export async function expectOneHolderEach(stage: ReplicaChaosStage): Promise<void> {
  let wrong: string | null = null;
  const isRight = async () => {
    wrong = await whatIsWrong(stage).catch((error: Error) => `${error.message}`);
    return wrong === null;
  };
  await pollUntil("one holder of each connector", isRight, {
    timeoutMs: settleMs,
    intervalMs: 200,
  }).catch((error: Error) => {
    throw new Error(`${error.message}: ${wrong}`);
  });
}

async function whatIsWrong(stage: ReplicaChaosStage): Promise<string | null> {
  const leases = await readLeases(stage);
  const names = stage.replicas.map(({ name }) => name);
  const orphan = leases.find(({ replica }) => replica === null || !names.includes(replica));
  if (leases.length !== stage.connectorIds.length || orphan) return `leases: ${JSON.stringify(leases)}`;
  const counts = names.map((name) => leases.filter(({ replica }) => replica === name).length);
  if (Math.max(...counts) - Math.min(...counts) > 1) return `not even: ${JSON.stringify(leases)}`;
  for (const replica of stage.replicas) {
    const said = await whatSaysOtherwise(replica, leases);
    if (said !== null) return said;
  }
  return await whatSessionIsOld(stage, leases);
}

async function whatSaysOtherwise(
  { api, name }: ChaosReplica,
  leases: readonly Lease[],
): Promise<string | null> {
  const { connectors } = await api.call<{ connectors: Shown[] }>("GET", "/api/v1/connectors");
  for (const { connector_id, replica } of leases) {
    const status = connectors.find(({ connector }) => connector.id === connector_id)?.status;
    const isRight = status?.replica === replica && status.state.realtime !== undefined;
    if (!isRight) return `${name} shows ${connector_id}, which ${replica} has, as ${JSON.stringify(status)}`;
  }
  return null;
}

/** A session of an earlier term, or of one to come, at the sink. */
async function whatSessionIsOld(
  { sink }: ReplicaChaosStage,
  leases: readonly Lease[],
): Promise<string | null> {
  const sessions = await sink.query<{ name: string }>(
    "select application_name as name from pg_stat_activity where application_name like 'millrace %'",
  );
  for (const { connector_id, term } of leases) {
    const other = sessions.find(
      ({ name }) => name.includes(` ${connector_id} `) && !name.endsWith(` t${term}`),
    );
    if (other) return `a session of another term than ${term} at the sink: ${other.name}`;
  }
  return null;
}
