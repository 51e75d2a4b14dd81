// The service as a process: from its start to a signal, a lost state, or a fault that nobody caught.

import type { Settings } from "./config.ts";
import type { Log } from "./log.ts";
import { Reloading } from "./reloading.ts";
import { startService } from "./serve.ts";

/** The bound on a stop in order. What is still in flight then comes again after the next start. */
const stopMs = 9_500;
/** The same when it comes while the service is starting: nothing that matters is in flight. */
const startingStopMs = 3_000;

/** Resolves with the exit code when the service has stopped. Throws when it cannot start. */
export async function serveUntilStopped(settings: Settings, log: Log, version: string): Promise<number> {
  const end = Promise.withResolvers<number>();
  const stopBySignal = (signal: NodeJS.Signals) => {
    log.info({ signal }, "stopping");
    end.resolve(0);
  };
  process.on("SIGINT", stopBySignal).on("SIGTERM", stopBySignal);
  const reloading = new Reloading(settings, log);
  // Of a terminal that is gone it says so; of an administrator, that the configuration is another one.
  process.on("SIGHUP", (signal) => (process.stdout.isTTY ? stopBySignal(signal) : reloading.ask()));
  // A promise that nobody waits for concerns nobody else. Behind an exception that nobody caught, what is in memory
  // cannot be trusted; what is durable can.
  process.on("unhandledRejection", (error) => log.error({ error }, "a failure that nobody waited for"));
  process.on("uncaughtException", (error) => {
    log.error({ error }, "stopping: a fault that nobody caught");
    end.resolve(1);
  });

  let isStarting = true;
  void end.promise.then(() => setTimeout(cutShort, isStarting ? startingStopMs : stopMs, log));
  const service = await startService(settings, log, version);
  isStarting = false;
  reloading.begin(service);
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

function cutShort(log: Log): void {
  log.warn("the stop took too long and is cut short; nothing is lost by it");
  process.exit(1);
}
