// Assembles the service: state, runtime and HTTP, started in this order and stopped in reverse.

import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { startAlerts } from "./alerts/start-alerts.ts";
import type { Fault } from "./api/error-handling.ts";
import { createApp } from "./app.ts";
import { nextTurn, sleepOrStop } from "./concurrency/sleep.ts";
import { checksHost, type Settings } from "./config.ts";
import { createServices } from "./create-services.ts";
import { applyDeclared, readDeclared } from "./declared-connectors.ts";
import { listen, urlOf } from "./listen.ts";
import type { Log } from "./log.ts";
import { isLoopbackHost } from "./loopback.ts";
import { EventHub } from "./runtime/events/event-hub.ts";
import { RuntimeEvents } from "./runtime/events/runtime-events.ts";
import { PrometheusMetricsService } from "./runtime/metrics/metrics-service.ts";
import { OtlpExporter } from "./runtime/metrics/otlp-exporter.ts";
import type { OtlpSettings } from "./runtime/metrics/otlp-settings.ts";
import { answerMs } from "./runtime/replicas/lease-decisions.ts";
import { Sharing } from "./runtime/replicas/sharing.ts";
import { ConnectorRun, workerThreads } from "./runtime/run/connector-run.ts";
import { LiveSampleService } from "./runtime/samples/sample-service.ts";
import { LiveHealthService, threadTrouble } from "./runtime/status/health-service.ts";
import { SlotWatch } from "./runtime/status/slot-watch.ts";
import { StatusBoard } from "./runtime/status/status-board.ts";
import { LocalStatuses, type Statuses } from "./runtime/status/statuses.ts";
import { Supervisor, type SupervisorContext } from "./runtime/supervisor.ts";
import { ThreadWatch } from "./runtime/threads/thread-watch.ts";
import { startVerifySchedule, type VerifySchedule } from "./runtime/verify-schedule.ts";
import { dropSinkObjects } from "./sink/registry.ts";
import { dropSourceObjects, readSourceLog } from "./source/registry.ts";
import { openState, type State } from "./state/open-state.ts";
import type { ReplicaSelf } from "./state/stores/lease-store.ts";

export interface RunningService extends AsyncDisposable {
  /** The URL to reach it at. */
  readonly url: string;
  /** Aborted with the reason when the service must stop: another one may own its state, or the state has died. */
  readonly lost: AbortSignal;
  /**
   * Reads the declared connectors again, and creates or replaces them as at the start. Throws `invalid_setting`; then
   * nothing is changed.
   */
  reload(): Promise<void>;
}

/**
 * `startRun`: makes an attempt of a run. A benchmark of the rest simulates them.
 * Throws `invalid_setting`, `encryption_key_mismatch` or `state_unavailable` when it cannot start.
 */
export async function startService(
  settings: Settings,
  log: Log,
  version: string,
  startRun = runsInThreads(settings),
): Promise<RunningService> {
  const declared = await readDeclared(settings, process.env);
  await using starting = new AsyncDisposableStack();
  const self = replicaOf(settings, version);
  const state = starting.use(
    await openState({
      instance: self.instance,
      leaseAnswerMs: answerMs(self.leaseMs),
      databaseUrl: settings.databaseUrl,
      dataDirectory: settings.dataDirectory,
      encryptionKey: settings.encryptionKey,
      reportMaintenance: (error) => log.warn({ error }, "the state's maintenance failed and is tried again"),
    }),
  );
  const now = () => new Date();
  const holds = (id: string): boolean => supervisor.holds(id);
  const board = new StatusBoard(state.history, log, now, { termOf: (id) => supervisor.termOf(id) });
  // Before the supervisor: it ends after the runs have.
  const alerts = settings.alerts && starting.use(startAlerts(settings.alerts, process.env, log));
  if (alerts) board.addWatch(alerts.watch);
  const { hub, watch } = followRuntime(state, board, () => statuses);
  const threads = starting.use(new ThreadWatch());
  let unready: string | null = "The service is starting.";
  const health = new LiveHealthService(state, threads, () => unready);
  const metrics = new PrometheusMetricsService({
    board,
    threads,
    version,
    health,
    replicaId: self.id,
    holds,
    slotOf: (id) => slots.slotOf(id),
    leftAlone: () => boards?.installation.leftAlone ?? [],
    countTasks: () => state.tasks.countByState(state.shared && self.instance),
    countParked: () => state.parked.totals(state.shared && self.instance),
    countReceipts: () => state.receipts.totals(state.shared && self.instance),
  });
  board.addWatch(metrics);
  const sharing =
    state.shared &&
    new Sharing({
      state,
      shared: state.shared,
      self,
      board,
      events: watch,
      hub,
      log,
      monotonicMs,
      trouble: () => threadTrouble(threads),
      replicaLost: (replica) => alerts?.watch.replicaLost(replica),
    });
  const supervisor: Supervisor = starting.use(
    new Supervisor({
      state,
      board,
      threads,
      log,
      dropSourceObjects,
      dropSinkObjects,
      startRun,
      verified: (id, task, result) => {
        metrics.verified(id, task, result);
        alerts?.watch.verified(id, task, result);
        void verifications.look(id);
      },
      beginsAgain: (id) => metrics.forgetVerified(id),
      taskFailed: (id, task) => {
        alerts?.watch.taskFailed(id, task);
        if (task.spec.Verify) void verifications.look(id);
      },
      attemptFailed: (id) => alerts?.watch.attemptFailed(id),
      messagesParked: (id, messages) => alerts?.watch.parked(id, messages),
      ...(sharing?.forSupervisor ?? { mayRun: () => true }),
      nowMs: Date.now,
      monotonicMs,
      random: Math.random,
      sleep: sleepOrStop,
    }),
  );
  const slots: SlotWatch = starting.use(new SlotWatch(state, board, readSourceLog));
  const boards = sharing?.connect(supervisor);
  const statuses: Statuses = boards?.statuses ?? new LocalStatuses(board, supervisor);
  const samples = starting.use(startSamples(state, board, statuses));
  const services = createServices({
    state,
    board,
    statuses,
    threads,
    supervisor,
    metrics,
    now,
    watch: boards?.watch ?? watch,
    version,
    settings,
    samples,
    self,
    view: () => boards?.installation.view ?? null,
    events: hub,
    health,
  });
  const verifications: VerifySchedule = starting.use(
    startVerifySchedule({ state, holds, statuses, tasks: services.tasks, log }),
  );
  const app = createApp({
    services,
    version,
    authentication: settings.authentication,
    acceptsHost: checksHost(settings) ? isLoopbackHost : null,
    reportFault: (fault) => reportFault(log, fault),
  });
  const server = await listen(app, settings);
  starting.defer(async () => {
    await app.stop(true);
  });
  // Before the server is, so that clients see the end of their streams.
  starting.defer(async () => {
    hub[Symbol.dispose]();
    await nextTurn();
  });
  if (settings.otlp) starting.use(startOtlp(settings.otlp, metrics, log, version));
  await starting.use(sharing)?.start();
  await supervisor.startDeletions();
  // First: nothing is to run as it was declared before.
  const apply = (connectors: typeof declared) =>
    applyDeclared(connectors, settings, (request) => app.handle(request), log);
  await apply(declared);
  await supervisor.start();
  unready = null;
  const owned = starting.move();
  return {
    url: urlOf(settings.host, server.port),
    lost: state.lost,
    reload: async () => apply(await readDeclared(settings, process.env)),
    [Symbol.asyncDispose]: () => {
      // First: it still answers while its runs end.
      unready = "The service is stopping.";
      return owned.disposeAsync();
    },
  };
}

function runsInThreads({ workerThreads: most }: Settings): SupervisorContext["startRun"] {
  const workers = workerThreads(most ?? undefined);
  return (request, events) => new ConnectorRun(request, events, workers);
}

/** This process among others that may share the state. */
function replicaOf({ replicaId, replicaWeight, leaseSeconds }: Settings, version: string): ReplicaSelf {
  const host = hostname();
  return {
    id: replicaId ?? `${host}-${randomText().slice(0, 6)}`,
    instance: crypto.randomUUID(),
    host,
    version,
    weight: replicaWeight,
    leaseMs: leaseSeconds * 1000,
    startedAt: new Date(performance.timeOrigin),
  };
}

/** What happens to connectors and tasks, as events for clients. */
function followRuntime(
  state: State,
  board: StatusBoard,
  statuses: () => Statuses,
): { hub: EventHub; watch: RuntimeEvents } {
  const hub = new EventHub(randomText());
  const watch = new RuntimeEvents({
    publish: (event, key) => hub.publish(event, key),
    status: (id) => statuses().status({ id, runId: statuses().runId(id) ?? "" }),
    runId: (id) => statuses().runId(id),
    monotonicMs,
  });
  board.addWatch(watch);
  state.tasks.watch = watch;
  return { hub, watch };
}

function startSamples({ connectors }: State, board: StatusBoard, statuses: Statuses): LiveSampleService {
  const readings = () => statuses.readings();
  const samples = new LiveSampleService({ connectors, readings, nowMs: Date.now, monotonicMs });
  board.addWatch(samples);
  samples.start();
  return samples;
}

const monotonicMs = () => performance.now();

/** Of letters and digits. */
function randomText(): string {
  return randomBytes(6).toString("hex");
}

function startOtlp(
  settings: OtlpSettings,
  metrics: PrometheusMetricsService,
  log: Log,
  version: string,
): OtlpExporter {
  const exporter = new OtlpExporter(settings, {
    collect: () => metrics.collect(),
    version,
    log,
    nowMs: Date.now,
    startMs: performance.timeOrigin,
    instanceId: crypto.randomUUID(),
  });
  exporter.start();
  return exporter;
}

/** The details go to the log, under the id that the client receives. */
function reportFault(log: Log, { error, method, path }: Fault): string {
  const id = Bun.randomUUIDv7();
  log.error({ id, method, path, error }, "a request failed by a fault of ours");
  return id;
}
