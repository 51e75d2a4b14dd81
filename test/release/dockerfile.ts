// Each step of the Dockerfile, in plain directories in place of images: what comes of it runs as its last stage says, without root and
// without any capability, on a file system that it cannot write to but for its volume.

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import { chmod, chown, cp, mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { $ } from "bun";
import { freePort } from "../../src/demo/free-port.ts";
import { waitFor } from "../support/wait-for.ts";

setDefaultTimeout(180_000);

const root = join(import.meta.dirname, "..", "..");
const isRoot = process.getuid?.() === 0;

interface Step {
  readonly word: string;
  readonly rest: string;
}

interface Stage {
  readonly directory: string;
  workingDirectory: string;
  readonly environment: Record<string, string>;
  user: string;
  entrypoint: readonly string[];
  command: readonly string[];
  health: readonly string[];
}

const steps: readonly Step[] = readFileSync(join(root, "Dockerfile"), "utf8")
  .split("\n")
  .filter((line) => line.trim() !== "" && !line.startsWith("#"))
  .map((line) => {
    const [word = "", ...rest] = line.split(" ");
    return { word, rest: rest.join(" ") };
  });

let directory: string;
let final: Stage;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "millrace-image-"));
  await chmod(directory, 0o755);
  final = await build(steps);
}, 300_000);

afterAll(async () => {
  await rm(directory, { recursive: true, force: true });
});

async function build(all: readonly Step[]): Promise<Stage> {
  const stages = new Map<string, Stage>();
  let stage: Stage | null = null;
  for (const { word, rest } of all) {
    if (word === "FROM") {
      const [, name = "final"] = rest.split(" AS ");
      stage = {
        directory: join(directory, name),
        workingDirectory: "/",
        environment: {},
        user: "0:0",
        entrypoint: [],
        command: [],
        health: [],
      };
      await mkdir(stage.directory, { recursive: true });
      stages.set(name, stage);
    } else if (stage) {
      await perform(stage, stages, word, rest);
    }
  }
  if (!stage) throw new Error("the Dockerfile has no stage");
  return stage;
}

/** A step that is not known here is not shown to work. */
async function perform(
  stage: Stage,
  stages: ReadonlyMap<string, Stage>,
  word: string,
  rest: string,
): Promise<void> {
  const inside = (path: string) =>
    join(stage.directory, path.startsWith("/") ? path : join(stage.workingDirectory, path));
  switch (word) {
    case "WORKDIR":
      stage.workingDirectory = rest;
      await mkdir(inside(rest), { recursive: true });
      break;
    case "COPY":
      await copy(stages, rest, inside);
      break;
    case "RUN": {
      const shell = Bun.spawn(["sh", "-ec", rest.replaceAll(/^bun\b/g, process.execPath)], {
        cwd: inside("."),
        stdout: "pipe",
        stderr: "pipe",
      });
      const said = await new Response(shell.stderr).text();
      if ((await shell.exited) !== 0) throw new Error(`RUN ${rest}: ${said}`);
      break;
    }
    case "ENV":
      for (const pair of rest.split(" ")) {
        const [name = "", value = ""] = pair.split("=");
        stage.environment[name] = value;
      }
      break;
    case "USER":
      stage.user = rest;
      break;
    case "ENTRYPOINT":
      stage.entrypoint = JSON.parse(rest);
      break;
    case "CMD":
      stage.command = JSON.parse(rest);
      break;
    case "HEALTHCHECK":
      stage.health = JSON.parse(rest.slice(rest.indexOf("[")));
      break;
    case "VOLUME":
    case "EXPOSE":
    case "STOPSIGNAL":
      break;
    default:
      throw new Error(`the test does not know ${word}`);
  }
}

async function copy(
  stages: ReadonlyMap<string, Stage>,
  rest: string,
  inside: (path: string) => string,
): Promise<void> {
  const words = rest.split(" ");
  const flag = (name: string) => words.find((word) => word.startsWith(`--${name}=`))?.slice(name.length + 3);
  const paths = words.filter((word) => !word.startsWith("--"));
  const [target = "", ...sources] = [paths.at(-1) ?? "", ...paths.slice(0, -1)];
  const from = flag("from");
  const base = from === undefined ? root : (stages.get(from)?.directory ?? "");
  for (const source of sources.flatMap((path) => (path === "." ? contextEntries() : [path]))) {
    const isInto = sources.length > 1 || target === "." || target === "./" || sources[0] === ".";
    const to = isInto ? join(inside(target), source) : inside(target);
    await mkdir(dirname(to), { recursive: true });
    await cp(join(base, source), to, { recursive: true });
    const owner = flag("chown")?.split(":").map(Number);
    if (owner && isRoot) await chown(to, owner[0] ?? 0, owner[1] ?? 0);
  }
}

/** What .dockerignore lets into the context. */
function contextEntries(): string[] {
  const lines = readFileSync(join(root, ".dockerignore"), "utf8").split("\n");
  expect(lines[0]).toBe("*");
  return lines.filter((line) => line.startsWith("!")).map((line) => line.slice(1));
}

/** The C library, which the base image has, and devices; then the command as the image would run it. */
async function enter(command: readonly string[], environment: Record<string, string>) {
  const env = { ...final.environment, ...environment };
  if (!isRoot) {
    const [program = "", ...args] = command;
    const data = join(final.directory, "data");
    return Bun.spawn([join(final.directory, program), ...args], {
      env: { ...env, MILLRACE_DATA_DIR: data },
      stdout: "pipe",
      stderr: "pipe",
    });
  }
  const jail = `
    mount --bind "$1" "$1"; mount -o remount,ro,bind "$1"
    mount --bind "$2" "$1/data"; mount -t proc proc "$1/proc"
    root="$1"; uid="\${3%%:*}"; gid="\${3##*:}"; shift 3
    exec chroot "$root" /setpriv --reuid="$uid" --regid="$gid" --clear-groups --no-new-privs \\
      --bounding-set=-all --inh-caps=-all --ambient-caps=-all "$@"`;
  return Bun.spawn(
    [
      "unshare",
      "--mount",
      "bash",
      "-ec",
      jail,
      "jail",
      final.directory,
      join(directory, "volume"),
      final.user,
      ...command,
    ],
    { env: { PATH: process.env.PATH ?? "", ...env }, stdout: "pipe", stderr: "pipe" },
  );
}

/** As the base image has them. */
async function addBase(): Promise<void> {
  const binary = join(final.directory, final.entrypoint[0] ?? "");
  const setpriv = Bun.which("setpriv");
  if (setpriv === null) throw new Error("setpriv, of util-linux, is not installed");
  await cp(setpriv, join(final.directory, "setpriv"), { dereference: true });
  const libraries = (await $`ldd ${binary} ${setpriv}`.text()).match(/\/\S+(?= \()/g) ?? [];
  for (const library of libraries) {
    await mkdir(join(final.directory, dirname(library)), { recursive: true });
    await cp(library, join(final.directory, library), { dereference: true });
  }
  for (const path of ["proc", "dev"]) await mkdir(join(final.directory, path), { recursive: true });
  await $`mknod -m 666 ${join(final.directory, "dev/null")} c 1 3`.quiet();
  await $`mknod -m 666 ${join(final.directory, "dev/urandom")} c 1 9`.quiet();
  const volume = join(directory, "volume");
  await $`cp -a ${join(final.directory, "data")} ${volume}`.quiet();
}

/** No capability in any set, no way to gain one, and nothing to write to but the volume. */
function expectBare(pid: number): void {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const [, ids] = /^Uid:\t(.*)$/m.exec(status) ?? [];
  expect(ids?.split("\t")).toEqual(Array(4).fill(final.user.split(":")[0]));
  for (const set of ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"])
    expect(status).toMatch(new RegExp(`^${set}:\t0+$`, "m"));
  expect(status).toContain("NoNewPrivs:\t1\n");
  const mounts = readFileSync(`/proc/${pid}/mountinfo`, "utf8")
    .split("\n")
    .map((line) => line.split(" "));
  // What is mounted on it in this namespace, by its place in the root of the process.
  const own = mounts.flatMap(([, , , , place, options]) =>
    place !== undefined && ["/", "/data"].includes(place) ? [`${place} ${options?.split(",")[0]}`] : [],
  );
  expect(own).toEqual(["/ ro", "/data rw"]);
}

test("the last stage runs, tells its health, reads its configuration again, and stops", async () => {
  if (isRoot) await addBase();
  expect(final.user.split(":")).not.toContain("0");
  const port = String(await freePort());
  const environment = {
    MILLRACE_PORT: port,
    MILLRACE_HOST: "127.0.0.1",
    MILLRACE_API_TOKEN: "for-this-test",
  };
  const service = await enter([...final.entrypoint, ...final.command], environment);
  const lines: string[] = [];
  void (async () => {
    for await (const chunk of service.stdout) lines.push(new TextDecoder().decode(chunk));
  })();
  const health = async () => await (await enter(final.health, environment)).exited;
  expect(await health()).toBe(3);
  await waitFor("a healthy service", async () => (await health()) === 0);
  if (isRoot) expectBare(service.pid);
  const answer = await fetch(`http://127.0.0.1:${port}/api/v1/connectors`);
  expect(answer.status).toBe(401);
  expect(
    (await readdir(join(isRoot ? join(directory, "volume") : join(final.directory, "data")))).length,
  ).toBeGreaterThan(0);
  // bash and chroot have given their process to it.
  service.kill("SIGHUP");
  await waitFor("the answer to SIGHUP", () => lines.join("").includes("without --config"));
  const askedAt = performance.now();
  service.kill("SIGTERM");
  expect(await service.exited).toBe(0);
  expect(performance.now() - askedAt).toBeLessThan(10_000);
  expect(lines.join("")).toContain('"msg":"stopped"');
});

test("the image holds its license, and those of what is inside the program", () => {
  const read = (name: string) => readFileSync(join(final.directory, "usr/share/doc/millrace", name), "utf8");
  expect(read("LICENSE")).toBe(readFileSync(join(root, "LICENSE"), "utf8"));
  const inside = read("THIRD_PARTY_LICENSES.txt");
  for (const name of ["bun", "PostgreSQL", "elysia"]) expect(inside).toMatch(new RegExp(`^${name} \\d`, "m"));
});

test("it listens to others only with credentials", async () => {
  const service = await enter([...final.entrypoint, ...final.command], {
    MILLRACE_PORT: String(await freePort()),
  });
  const said = await new Response(service.stderr).text();
  expect(await service.exited).toBe(1);
  expect(said).toContain("MILLRACE_API_TOKEN");
});
