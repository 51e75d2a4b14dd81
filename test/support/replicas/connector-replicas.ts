// The replicas of one connector between real servers, and what is left of it in the end: its slot and its databases.

import type { ConnectorRequest } from "../../../src/connector/connector.ts";
import { slotName } from "../../../src/connector/connector-id.ts";
import { dropMeanwhile } from "../drop-meanwhile.ts";
import type { PostgresServer } from "../servers/postgres-server.ts";
import { waitFor } from "../wait-for.ts";
import { Replica } from "./replica.ts";
import { ReplicaState } from "./replica-state.ts";

export class ConnectorReplicas implements AsyncDisposable {
  readonly state = new ReplicaState();
  readonly #replicas: Replica[] = [];

  /** `databases`: of the connector alone, on the server that is its source. */
  constructor(
    private readonly server: PostgresServer,
    private readonly id: string,
    private readonly databases: readonly string[],
  ) {}

  /** As `Replica.start`. */
  async start(request: ConnectorRequest, term?: number): Promise<Replica> {
    const replica = await Replica.start(this.state, request, term);
    this.#replicas.push(replica);
    return replica;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const replica of this.#replicas) await replica[Symbol.asyncDispose]();
    const ofSlot = `from pg_replication_slots where slot_name = '${slotName(this.id)}'`;
    const isFree = async () => (await this.server.query(`select ${ofSlot} and active`)).length === 0;
    await waitFor("a free slot", isFree);
    await this.server.query(`select pg_drop_replication_slot(slot_name) ${ofSlot}`);
    dropMeanwhile(this.server, ...this.databases);
  }
}
