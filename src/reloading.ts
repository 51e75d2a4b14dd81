// Reads the declared connectors again when an administrator asks for it, by SIGHUP.

import type { Settings } from "./config.ts";
import { toMillraceError } from "./errors/millrace-error.ts";
import type { Log } from "./log.ts";
import type { RunningService } from "./serve.ts";

/** One reload after the other; what is asked for before the service is there, or while one is under way, is one more. */
export class Reloading {
  #service: RunningService | null = null;
  #isAsked = false;
  #isUnderWay = false;

  constructor(
    private readonly settings: Pick<Settings, "configFile">,
    private readonly log: Log,
  ) {}

  begin(service: RunningService): void {
    this.#service = service;
    if (this.#isAsked) this.ask();
  }

  ask(): void {
    this.#isAsked = true;
    if (!this.#isUnderWay && this.#service) void this.#reload(this.#service);
  }

  async #reload(service: RunningService): Promise<void> {
    const { configFile } = this.settings;
    this.#isUnderWay = true;
    while (this.#isAsked) {
      this.#isAsked = false;
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
    this.#isUnderWay = false;
  }
}
