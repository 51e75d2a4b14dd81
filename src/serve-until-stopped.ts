// The service as a process: from its start until a signal, a lost state, or an uncaught exception.

import type { Settings } from "./config.ts";
import { ConfigReloader } from "./config-reloader.ts";
import type { Log } from "./log.ts";
import type { SupervisorContext } from "./runtime/supervisor.ts";
import { startService } from "./serve.ts";

/** The time limit of an orderly stop. What is still in flight then is sent again after the next start. */
const stopMs = 9_500;
/** The limit while the service is starting: nothing is in flight, so that it may end as it was asked to. */
const startingStopMs = 3_000;

/** Resolves with the exit code when the service has stopped. Throws when it cannot start. `startRun`: as of `startService`. */
export async function serveUntilStopped(
  settings: Settings,
  log: Log,
  version: string,
  startRun?: SupervisorContext["startRun"],
): Promise<number> {
  const end = Promise.withResolvers<number>();
  const stopBySignal = (signal: NodeJS.Signals) => {
    log.info({ signal }, "stopping");
    end.resolve(0);
  };
  process.on("SIGINT", stopBySignal).on("SIGTERM", stopBySignal);
  const reloader = new ConfigReloader(settings, log);
  // On a terminal SIGHUP means that the terminal is gone; otherwise an administrator has changed the configuration.
  process.on("SIGHUP", (signal) => (process.stdout.isTTY ? stopBySignal(signal) : reloader.request()));
  // An unhandled rejection concerns nobody else. After an uncaught exception, memory cannot be trusted; what is durable
  // can.
  process.on("unhandledRejection", (error) => log.error({ error }, "a failure that nobody waited for"));
  process.on("uncaughtException", (error) => {
    log.error({ error }, "stopping: a fault that nobody caught");
    end.resolve(1);
  });

  let isStarting = true;
  void end.promise.then((code) => {
    if (isStarting) setTimeout(exitAtOnce, startingStopMs, log, code);
    else setTimeout(exitAtOnce, stopMs, log, 1);
  });
  const service = await startService(settings, log, version, startRun);
  isStarting = false;
  reloader.start(service);
  const stopLost = () => {
    log.error({ error: service.lost.reason }, "stopping: the state is lost to this service");
    end.resolve(1);
  };
  if (service.lost.aborted) stopLost();
  else service.lost.addEventListener("abort", stopLost);
  const state = settings.databaseUrl === null ? settings.dataDirectory : "DATABASE_URL";
  log.info({ version, url: service.url, docs: `${service.url}/swagger`, state }, "millrace is ready");

  if (settings.databaseUrl !== null && settings.encryptionKey === null) {
    log.warn(
      { directory: settings.dataDirectory },
      "the stored secrets can be read with the key file in this directory only: keep it, or set MILLRACE_ENCRYPTION_KEY",
    );
  }

  const code = await end.promise;
  await service[Symbol.asyncDispose]();
  log.info("stopped");
  return code;
}

function exitAtOnce(log: Log, code: number): void {
  log.warn("the stop took too long and is cut short; nothing is lost by it");
  process.exit(code);
}
