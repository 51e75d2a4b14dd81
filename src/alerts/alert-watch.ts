// Watches the statuses of the connectors that this replica holds, and hands on the alerts that are due.

import type { ParkedMessage } from "../connector/parking.ts";
import type { SetAsideTable, Status } from "../connector/status.ts";
import type { Task } from "../connector/task.ts";
import { tableOfTask } from "../connector/task-table.ts";
import type { VerifyResult } from "../connector/verification.ts";
import type { Alert, LostReplica, SlotDanger } from "./alert.ts";
import { ConnectorAlerts } from "./connector-alerts.ts";
import { ReplicaAlerts } from "./replica-alerts.ts";

/** Never blocks, and never throws: reports of connectors come from where they are made. */
export class AlertWatch {
  readonly #connectors = new Map<string, ConnectorAlerts>();
  readonly #replicas = new ReplicaAlerts();

  constructor(
    private readonly send: (alert: Alert) => void,
    private readonly nowMs: () => number,
  ) {}

  reported(connectorId: string, status: Status): void {
    this.#tell(connectorId, (alerts, nowMs) => alerts.reported(status, nowMs));
  }

  /** An attempt of the connector's run has failed. What follows from it is reported next. */
  attemptFailed(connectorId: string): void {
    this.#connectors.get(connectorId)?.attemptFailed(this.nowMs());
  }

  measuredSlot(connectorId: string, slot: SlotDanger): void {
    this.#tell(connectorId, (alerts, nowMs) => alerts.slot(slot, nowMs));
  }

  setAside(connectorId: string, tables: readonly SetAsideTable[]): void {
    this.#tell(connectorId, (alerts, nowMs) => alerts.setAside(tables, nowMs));
  }

  taskFailed(connectorId: string, { id, spec, reason = "" }: Task): void {
    const { schema, name } = tableOfTask(spec);
    const failed = { id, schema, name, reason };
    this.#tell(connectorId, (alerts, nowMs) => alerts.taskFailed(failed, nowMs));
  }

  verified(connectorId: string, { id, spec }: Task, result: VerifyResult): void {
    const differing = result.missing + result.extra + result.changed;
    if (differing === 0) return;
    const { schema, name } = tableOfTask(spec);
    const table = { id, schema, name, differing, repaired: result.repaired };
    this.#tell(connectorId, (alerts, nowMs) => alerts.differs(table, nowMs));
  }

  /** Messages were parked, which may be of several tables. */
  parked(connectorId: string, messages: readonly Pick<ParkedMessage, "schema" | "table">[]): void {
    this.#tell(connectorId, (alerts, nowMs) => {
      for (const { schema, table: name } of messages) alerts.parked({ schema, name, messages: 1 }, nowMs);
    });
  }

  /** Another replica is lost, and this one was the first to find out. */
  replicaLost({ id, host, version, seenAt }: LostReplica): void {
    this.#replicas.lost({ id, host, version, seenAt }, this.nowMs());
    this.#sendDueOfReplicas();
  }

  /** Another replica may hold the connector from now on, or the service ends: what is wrong then is told by the next holder. */
  released(connectorId: string): void {
    for (const alert of this.#connectors.get(connectorId)?.untold() ?? []) this.send(alert);
    this.forget(connectorId);
  }

  /** The connector is deleted. */
  forget(connectorId: string): void {
    this.#connectors.delete(connectorId);
  }

  /** Call it now and then: some alerts are due because time has passed. */
  tick(): void {
    for (const alerts of this.#connectors.values()) this.#sendDue(alerts);
    this.#sendDueOfReplicas();
  }

  #tell(connectorId: string, tell: (alerts: ConnectorAlerts, nowMs: number) => void): void {
    let alerts = this.#connectors.get(connectorId);
    if (!alerts) {
      alerts = new ConnectorAlerts(connectorId);
      this.#connectors.set(connectorId, alerts);
    }
    tell(alerts, this.nowMs());
    this.#sendDue(alerts);
  }

  #sendDueOfReplicas(): void {
    const alert = this.#replicas.due(this.nowMs());
    if (alert) this.send(alert);
  }

  #sendDue(alerts: ConnectorAlerts): void {
    for (const alert of alerts.due(this.nowMs())) this.send(alert);
  }
}
