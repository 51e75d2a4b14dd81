// How the JVMs of tests are started: they live for seconds, so a quick start counts. The classes of a broker's start are
// archived once, ready for use, which saves every start a second of two cores (class data sharing, JEP 350).

import { spawn } from "node:child_process";
import { closeSync, existsSync, openSync } from "node:fs";
import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { freePort } from "../../../src/demo/free-port.ts";
import { waitFor } from "../wait-for.ts";
import { jvmFlags, kafkaJars, kafkaVersion, made, must, run } from "./kafka-jars.ts";

const archiveFile = "kafka.jsa";

let flags: Promise<readonly string[]> | null = null;

/** Before the class path, which begins with that of `kafkaJars`. */
export function javaFlags(): Promise<readonly string[]> {
  flags ??= findFlags();
  return flags;
}

async function findFlags(): Promise<readonly string[]> {
  const jars = await kafkaJars();
  const { output } = await run(["java", "-version"]);
  // Another Java, or other places of the jars, make another archive.
  const key = Bun.hash(`${output} ${jars}`).toString(36);
  const directory = await made(`archive-${kafkaVersion}-${key}`, (draft) => archive(jars, draft));
  // A JVM that cannot use it goes without.
  return [...jvmFlags, `-XX:SharedArchiveFile=${join(directory, archiveFile)}`];
}

async function archive(jars: string, draft: string): Promise<void> {
  const config = join(draft, "broker.properties");
  const data = join(draft, "data");
  const kept = join(draft, archiveFile);
  await writeFile(config, await plainBroker(data));
  const java = ["java", ...jvmFlags, "-cp", jars];
  const id = Buffer.from(crypto.getRandomValues(new Uint8Array(16))).toString("base64url");
  await must([...java, "kafka.tools.StorageTool", "format", `--cluster-id=${id}`, "--config", config]);
  const logFile = join(draft, "broker.log");
  const log = openSync(logFile, "a");
  const child = spawn(
    "java",
    [`-XX:ArchiveClassesAtExit=${kept}`, ...jvmFlags, "-cp", jars, "kafka.Kafka", config],
    {
      stdio: ["ignore", log, log],
    },
  );
  closeSync(log);
  const exited = new Promise((resolve) => child.once("exit", resolve));
  try {
    await waitFor(
      "the start of a broker",
      async () =>
        child.exitCode !== null || (await readFile(logFile, "utf8")).includes("Kafka Server started"),
      { timeoutMs: 90_000 },
    );
  } finally {
    child.kill("SIGTERM");
    await exited;
  }
  if (!existsSync(kept))
    throw new Error(`no archive was made:\n${(await readFile(logFile, "utf8")).slice(-4_000)}`);
  await rm(data, { recursive: true });
}

async function plainBroker(data: string): Promise<string> {
  const [port, controller] = [await freePort(), await freePort()];
  return `process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:${controller}
listeners=PLAINTEXT://127.0.0.1:${port},CONTROLLER://127.0.0.1:${controller}
controller.listener.names=CONTROLLER
log.dirs=${data}
offsets.topic.replication.factor=1
`;
}
