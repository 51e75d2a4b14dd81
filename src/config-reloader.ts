// Reads the declared connectors again on SIGHUP.

import type { Settings } from "./config.ts";
import { toMillraceError } from "./errors/millrace-error.ts";
import type { Log } from "./log.ts";
import type { RunningService } from "./serve.ts";

/** Reloads one by one. Requests before the service has started, or during a reload, cause one more reload. */
export class ConfigReloader {
  #service: RunningService | null = null;
  #isRequested = false;
  #isReloading = false;

  constructor(
    private readonly settings: Pick<Settings, "configFile">,
    private readonly log: Log,
  ) {}

  start(service: RunningService): void {
    this.#service = service;
    if (this.#isRequested) this.request();
  }

  request(): void {
    this.#isRequested = true;
    if (!this.#isReloading && this.#service) void this.#reload(this.#service);
  }

  async #reload(service: RunningService): Promise<void> {
    const { configFile } = this.settings;
    this.#isReloading = true;
    while (this.#isRequested) {
      this.#isRequested = false;
      if (configFile === null) {
        this.log.warn("SIGHUP: there is nothing to read again, as the service was started without --config");
        continue;
      }
      try {
        await service.reload();
        this.log.info({ file: configFile }, "the declared connectors are read again");
      } catch (error) {
        const { message } = toMillraceError(error);
        this.log.error({ file: configFile, reason: message }, "the declared connectors stay as they were");
      }
    }
    this.#isReloading = false;
  }
}
