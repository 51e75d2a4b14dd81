// `millrace demo`: replicates a real Postgres, which it starts itself, to another Postgres and to a webhook, and
// verifies the result. demo-stage.ts sets it up, demo-watch.ts displays progress, demo-verification.ts compares.

import { number } from "./connector-view.ts";
import { DemoStage } from "./demo-stage.ts";
import { isProven, totalRows, type Verification, verify } from "./demo-verification.ts";
import { DemoWatch, hasCaughtUp, isStreaming, type LoadCount } from "./demo-watch.ts";
import { LiveDisplay, terminalOutput } from "./live-display.ts";
import { runLoad } from "./shop-load.ts";
import { describeDifference, isEqual } from "./table-comparison.ts";

export interface DemoOptions {
  /** Exit after the verification. Otherwise the demo runs until Ctrl-C. */
  readonly once: boolean;
  /** 1: about 125,000 rows. */
  readonly scale?: number;
  /** The minimum time that the load runs before the verification. */
  readonly loadSeconds?: number;
  /** Of a Kafka cluster that is there: the demo writes to it too. */
  readonly brokers?: readonly string[];
}

/** SIGHUP: the terminal is closed. */
const interruptions = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
/** The exit code that a shell reports for a process that SIGINT ended. */
const interruptedCode = 130;
const initialCopyTimeoutMs = 120_000;
const busyPauseMs = 8;
const calmPauseMs = 100;

const catchUpTimeoutMs = 30_000;
/** Of the shop. */
const shownTable = "orders";

class Interrupted extends Error {}

/** Resolves with the exit code after everything is taken down. The code is 0 only if source and sinks were equal. */
export async function runDemo(options: DemoOptions): Promise<number> {
  const display = new LiveDisplay(terminalOutput(process.stdout));
  const stop = new AbortController();
  const interrupt = () => stop.abort(new Interrupted("interrupted"));
  for (const signal of interruptions) process.on(signal, interrupt);
  try {
    return await setUpAndRun(options, display, stop.signal);
  } catch (error) {
    if (error instanceof Interrupted) return interruptedCode;
    display.print(`The demo failed: ${error instanceof Error ? error.message : String(error)}`);
    return 1;
  } finally {
    for (const signal of interruptions) process.off(signal, interrupt);
  }
}

async function setUpAndRun(options: DemoOptions, display: LiveDisplay, signal: AbortSignal): Promise<number> {
  const announce = (step: string) => display.print(`  ${step}`);
  display.print("millrace demo: every change of one Postgres, to another Postgres and to a webhook");
  const { brokers, scale = 1 } = options;
  await using stage = await DemoStage.setUp({ scale, ...(brokers && { brokers }), signal, announce });
  let proven = false;
  let removed = false;
  try {
    proven = await replicateAndVerify(stage, options, display, signal);
    if (!options.once) await runUntilInterrupted(stage, display, signal);
  } catch (error) {
    if (!(error instanceof Interrupted) && stage.service.log) display.print(stage.service.log);
    throw error;
  } finally {
    display.print("Taking everything down.");
    removed = await removeConnectors(stage, display);
  }
  return proven && removed ? 0 : 1;
}

async function replicateAndVerify(
  stage: DemoStage,
  options: DemoOptions,
  display: LiveDisplay,
  signal: AbortSignal,
): Promise<boolean> {
  await stage.createConnectors();
  display.print(`  Connectors ${stage.connectorIds.join(" and ")} created through the API`);
  const load: LoadCount = { rows: 0, transactions: 0 };
  const watch = new DemoWatch(stage, display, load);
  const loadMs = (options.loadSeconds ?? 10) * 1000;
  await underLoad(stage, load, busyPauseMs, async () => {
    await watch.until((seen) => {
      if (!isStreaming(seen) && seen.elapsedMs > initialCopyTimeoutMs)
        throw new Error("the initial copy takes too long");
      return isStreaming(seen) && seen.elapsedMs >= loadMs;
    }, signal);
  });
  display.print(
    `  Load over: ${number(load.rows)} rows changed in ${number(load.transactions)} transactions. Comparing.`,
  );
  const verification = await verify(stage, signal);
  summarise(stage, verification, display);
  if (options.brokers) {
    await watch.until(hasCaughtUp, AbortSignal.any([signal, AbortSignal.timeout(catchUpTimeoutMs)]));
    for (const line of howToRead(options.brokers)) display.print(line);
  }
  return isProven(verification);
}

/** Runs the demo with a lighter load until the user interrupts it. */
async function runUntilInterrupted(
  stage: DemoStage,
  display: LiveDisplay,
  signal: AbortSignal,
): Promise<void> {
  stage.receiver.stopStoring();
  display.print("Going on until Ctrl-C.");
  const load: LoadCount = { rows: 0, transactions: 0 };
  const watch = new DemoWatch(stage, display, load);
  try {
    await underLoad(stage, load, calmPauseMs, () => watch.until(() => false, signal));
  } catch (error) {
    if (!(error instanceof Interrupted)) throw error;
  }
}

/** Runs `work` while the load runs. If the load fails and `work` does not, the load's error is thrown. */
async function underLoad(
  stage: DemoStage,
  load: LoadCount,
  pauseMs: number,
  work: () => Promise<void>,
): Promise<void> {
  await using client = await stage.connectToSource();
  const over = new AbortController();
  const onCommit = (rows: number) => {
    load.rows += rows;
    load.transactions += 1;
  };
  const loading = runLoad(client, { pauseMs, signal: over.signal, onCommit });
  try {
    await work();
  } finally {
    over.abort();
    await loading;
  }
}

function summarise(stage: DemoStage, verification: Verification, display: LiveDisplay): void {
  const { postgres, webhook, contradictions } = verification;
  const differences = [...postgres, ...webhook].filter((difference) => !isEqual(difference));
  for (const difference of differences) display.print(describeDifference(difference));
  const repeated = stage.receiver.requests - stage.receiver.deliveries.size;
  const verdict = (equal: boolean) =>
    equal ? "equal to the source, value by value" : "NOT equal to the source";
  display.print();
  display.print(isProven(verification) ? "Proved:" : "Not proved:");
  display.print(
    `  Postgres sink: ${postgres.length} tables, ${number(totalRows(postgres))} rows: ${verdict(postgres.every(isEqual))}`,
  );
  display.print(
    `  Webhook sink:  ${webhook.length} tables, ${number(totalRows(webhook))} rows from ${number(stage.receiver.deliveries.size)} deliveries` +
      ` (${number(repeated)} came twice): ${verdict(webhook.every(isEqual))}`,
  );
  if (contradictions > 0) display.print(`  ${contradictions} deliveries came again with another body`);
  display.print();
  display.print(`Console:    ${stage.service.url}/`);
  display.print(`Swagger UI: ${stage.service.url}/swagger`);
}

/** The topics stay when the demo ends. */
function howToRead(brokers: readonly string[]): readonly string[] {
  const topic = `millrace-demo.public.${shownTable}`;
  return [
    "",
    "The Kafka sink's topics begin with millrace-demo., and stay. Read what is committed:",
    `  kcat -C -b ${brokers.join(",")} -t ${topic} -X isolation.level=read_committed -f '%k %s\\n' -e`,
    `  kafka-console-consumer.sh --bootstrap-server ${brokers[0]} --topic ${topic} --from-beginning --isolation-level read_committed`,
    "They can be deleted: kafka-topics.sh --delete --topic 'millrace-demo\\..*'",
  ];
}

/** Returns whether connectors and slots are gone. The stage's disposal takes down the rest in any case. */
async function removeConnectors(stage: DemoStage, display: LiveDisplay): Promise<boolean> {
  try {
    await stage.deleteConnectors();
    return true;
  } catch (error) {
    display.print(
      `The connectors could not be deleted: ${error instanceof Error ? error.message : String(error)}`,
    );
    return false;
  }
}
