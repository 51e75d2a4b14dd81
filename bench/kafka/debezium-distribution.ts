// Debezium Server's programs, by Maven, and the Java to run them: fetched once, and shared by all benchmarks of this
// working copy. Nothing comes from anywhere but Maven.

import { existsSync } from "node:fs";
import { readdir, rm } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { made, must, run } from "../../test/support/kafka/kafka-jars.ts";

export const debeziumVersion = "3.0.8.Final";

export interface DebeziumDistribution {
  /** The program. */
  readonly java: string;
  readonly classPath: string;
  /** As `java -version` names it, such as 21.0.5. */
  readonly javaVersion: string;
}

type Environment = Readonly<Record<string, string | undefined>>;

const artifact = `io.debezium:debezium-server-dist:${debeziumVersion}:tar.gz`;
const oldestJava = 21;
const remedy = `install one (apt-get install openjdk-${oldestJava}-jre-headless) and set MILLRACE_BENCH_JAVA_HOME to its directory`;

/** Throws one sentence about what is missing. */
export async function findDebezium(environment: Environment): Promise<DebeziumDistribution> {
  const java = javaProgram(environment);
  const { code, output } = await run([java, "-version"]);
  const version = code === 0 ? versionOf(output) : null;
  const lack = lackOfJava(java, version);
  if (lack !== null) throw new Error(lack);
  const directory = await made(`debezium-server-${debeziumVersion}`, fetchDistribution);
  const runner = (await readdir(directory)).find((file) => file.endsWith("-runner.jar")) ?? "";
  const classPath = [join(directory, runner), join(directory, "lib", "*")].join(delimiter);
  return { java, classPath, javaVersion: version ?? "" };
}

export function javaProgram({ MILLRACE_BENCH_JAVA_HOME, JAVA_HOME }: Environment): string {
  const home = MILLRACE_BENCH_JAVA_HOME || JAVA_HOME;
  return home ? join(home, "bin", "java") : "java";
}

/** Of what `java -version` says. */
export function versionOf(output: string): string | null {
  return /version "([^"]+)"/.exec(output)?.[1] ?? null;
}

/** Null: it is new enough. `version` is null where it does not run. */
export function lackOfJava(java: string, version: string | null): string | null {
  const isEnough = version !== null && Number.parseInt(version, 10) >= oldestJava;
  if (isEnough) return null;
  const found = version === null ? `${java} does not run` : `${java} is ${version}`;
  return `Debezium Server needs Java ${oldestJava} or newer, and ${found}: ${remedy}.`;
}

/** Maven's own unpacking cuts long names. */
async function fetchDistribution(draft: string): Promise<void> {
  if ((await run(["mvn", "-version"])).code !== 0)
    throw new Error(
      "Debezium Server comes by Maven, which is not there: install it (apt-get install maven).",
    );
  const archive = join(draft, `debezium-server-dist-${debeziumVersion}.tar.gz`);
  await must(["mvn", "-q", "-B", "dependency:copy", `-Dartifact=${artifact}`, `-DoutputDirectory=${draft}`]);
  if (!existsSync(archive)) throw new Error(`Maven did not bring ${archive}`);
  // The connectors beside `lib` are those of Cassandra.
  await must([
    ...["tar", "-xzf", archive, "-C", draft, "--strip-components=1"],
    "--exclude=debezium-server/connectors",
  ]);
  await rm(archive);
}
