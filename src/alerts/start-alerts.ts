// Assembles what sends alerts: the watch over the connectors, and the sender.

import { sleepOrThrow } from "../concurrency/sleep.ts";
import { AddressResolver, egressPolicy } from "../connection/egress.ts";
import type { Log } from "../log.ts";
import { sharedInterval } from "../measure/shared-interval.ts";
import { ConnectionPool } from "../sink/http/connection-pool.ts";
import { AlertSender } from "./alert-sender.ts";
import type { AlertSettings } from "./alert-settings.ts";
import { AlertWatch } from "./alert-watch.ts";

/** How late an alert may be that is due because time has passed. */
const tickMs = 5_000;

export interface Alerts extends AsyncDisposable {
  readonly watch: AlertWatch;
}

/** `environment`: says where webhooks may go, which holds for alerts too. */
export function startAlerts(
  settings: AlertSettings,
  environment: Readonly<Record<string, string | undefined>>,
  log: Log,
): Alerts {
  const pool = new ConnectionPool();
  const sender = new AlertSender(settings, {
    egress: { resolver: new AddressResolver(egressPolicy(environment)), pool },
    log,
    sleep: sleepOrThrow,
    now: Date.now,
    monotonic: () => performance.now(),
    random: Math.random,
  });
  const watch = new AlertWatch((alert) => sender.send(alert), Date.now);
  const ticking = sharedInterval(tickMs, () => watch.tick());
  return {
    watch,
    [Symbol.asyncDispose]: async () => {
      ticking[Symbol.dispose]();
      await sender[Symbol.asyncDispose]();
      pool[Symbol.dispose]();
    },
  };
}
