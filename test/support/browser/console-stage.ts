// What the tests of the console stand on: the compiled program in a directory of its own, its API, and a real Chromium.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ApiClient } from "../../../src/demo/api-client.ts";
import { ServiceProcess } from "../../../src/demo/service-process.ts";
import { compiledBinary } from "../program/compiled-binary.ts";
import { Chromium, type OpenedPage } from "./chromium.ts";
import type { PageOptions } from "./look.ts";

export class ConsoleStage implements AsyncDisposable {
  private constructor(
    readonly service: ServiceProcess,
    readonly api: ApiClient,
    readonly chromium: Chromium,
    private readonly serve: (name: string, environment: Record<string, string>) => Promise<ServiceProcess>,
    private readonly resources: AsyncDisposableStack,
  ) {}

  static async start(): Promise<ConsoleStage> {
    const command = [await compiledBinary()];
    await using resources = new AsyncDisposableStack();
    const workingDirectory = await mkdtemp(join(tmpdir(), "millrace-console-"));
    resources.defer(() => rm(workingDirectory, { recursive: true, force: true }));
    const serve = (name: string, environment: Record<string, string>) =>
      ServiceProcess.start({
        command,
        environment,
        workingDirectory,
        dataDirectory: join(workingDirectory, name),
      });
    const service = resources.use(await serve("data", {}));
    const chromium = resources.use(await Chromium.launch());
    return new ConsoleStage(service, new ApiClient(service.url), chromium, serve, resources.move());
  }

  /** One more service, with a state of its own. */
  another(environment: Record<string, string>): Promise<ServiceProcess> {
    return this.serve(crypto.randomUUID(), environment);
  }

  open(path: string, options?: PageOptions): Promise<OpenedPage> {
    return this.chromium.open(this.service.url, path, options);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.resources.disposeAsync();
  }
}
