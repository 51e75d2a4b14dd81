// Kafka's own programs for tests, by Maven: fetched once, and shared by all test processes of this working copy. The
// tests' tool (KafkaTool.java) is compiled beside them, by a compiler that comes with them: a JRE is enough.

import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";

export const kafkaVersion = "4.3.0";

const artifacts = [
  ["org.apache.kafka", "kafka_2.13", kafkaVersion],
  ["org.apache.kafka", "kafka-tools", kafkaVersion],
  ["org.slf4j", "slf4j-simple", "1.7.36"],
  ["org.eclipse.jdt", "ecj", "3.45.0"],
] as const;

const cache = resolve(import.meta.dirname, "..", "..", "..", "node_modules", ".cache", "millrace-kafka");
const toolSources = ["KafkaTool.java", "TopicReader.java"].map((file) => join(import.meta.dirname, file));
const oldestJava = 17;
const install = "apt-get install openjdk-17-jre-headless maven";

/** Of every JVM here: they live for seconds, so a quick start counts, and a small heap. */
export const jvmFlags = [
  ...["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Djava.net.preferIPv4Stack=true"],
];

let jars: Promise<string> | null = null;

/** The class path of Kafka's own programs. Fetches them where they are not there yet. */
export function kafkaJars(): Promise<string> {
  jars ??= findJars();
  return jars;
}

/** The directory of the tool's classes. */
export async function toolClasses(): Promise<string> {
  const classPath = await kafkaJars();
  const texts = await Promise.all(toolSources.map((file) => readFile(file, "utf8")));
  const hash = Bun.hash(texts.join("\n")).toString(36);
  return await made(`tool-${kafkaVersion}-${hash}`, (draft) => compileTool(classPath, draft));
}

/** Whether brokers can run here: there is a Java, and Maven or what it brought before. */
export async function hasKafka(): Promise<boolean> {
  return (await missing()) === null;
}

async function findJars(): Promise<string> {
  const lacks = await missing();
  if (lacks !== null) throw new Error(`Kafka's brokers cannot run here: ${lacks}. To have it: ${install}`);
  const directory = await made(`kafka-${kafkaVersion}`, fetchJars);
  const files = (await readdir(directory)).filter((file) => file.endsWith(".jar")).sort();
  return files.map((file) => join(directory, file)).join(":");
}

async function missing(): Promise<string | null> {
  const { code, output } = await run(["java", "-version"]);
  if (code !== 0) return "there is no Java";
  const version = Number(/version "(\d+)/.exec(output)?.[1]);
  if (!(version >= oldestJava)) return `Java ${oldestJava} is needed, and there is ${output.split("\n")[0]}`;
  if (existsSync(join(cache, `kafka-${kafkaVersion}`))) return null;
  return (await run(["mvn", "-version"])).code === 0 ? null : "there is no Maven";
}

async function fetchJars(draft: string): Promise<void> {
  const pom = join(draft, "pom.xml");
  const dependencies = artifacts.map(
    ([group, artifact, version]) =>
      `<dependency><groupId>${group}</groupId><artifactId>${artifact}</artifactId><version>${version}</version></dependency>`,
  );
  await writeFile(
    pom,
    `<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>millrace</groupId><artifactId>kafka</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>${dependencies.join("\n")}</dependencies></project>\n`,
  );
  await must(["mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies", `-DoutputDirectory=${draft}`]);
}

async function compileTool(classPath: string, draft: string): Promise<void> {
  const compiler = "org.eclipse.jdt.internal.compiler.batch.Main";
  await must([
    ...["java", ...jvmFlags, "-cp", classPath, compiler],
    ...[`-${oldestJava}`, "-nowarn", "-cp", classPath, "-d", draft, ...toolSources],
  ]);
}

/** A directory of the cache, whole or not at all. Somebody else may be faster. */
export async function made(name: string, make: (draft: string) => Promise<void>): Promise<string> {
  const path = join(cache, name);
  if (existsSync(path)) return path;
  const draft = join(cache, `draft-${crypto.randomUUID()}`);
  await mkdir(draft, { recursive: true });
  try {
    await make(draft);
    await rename(draft, path).catch((error: unknown) => {
      if (!existsSync(path)) throw error;
    });
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
  return path;
}

export async function must(command: readonly string[]): Promise<void> {
  const { code, output } = await run(command);
  if (code !== 0) throw new Error(`${command[0]} failed with ${code}:\n${output.slice(-4_000)}`);
}

export async function run(command: readonly string[]): Promise<{ code: number; output: string }> {
  if (Bun.which(command[0]!) === null) return { code: 127, output: "" };
  const child = Bun.spawn([...command], { stdin: "ignore", stdout: "pipe", stderr: "pipe" });
  const [out, err, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  return { code, output: out + err };
}
