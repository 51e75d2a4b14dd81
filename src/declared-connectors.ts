// Connectors that a file declares: they are created or replaced when the service starts, by its own API and its rules.

import { type ApplyEvents, applyConnectors } from "./cli/apply-connectors.ts";
import { type FileConnector, readConnectors } from "./cli/connector-file.ts";
import { CommandFailure, ServiceClient } from "./cli/service-client.ts";
import type { Environment, Settings } from "./config.ts";
import { MillraceError } from "./errors/millrace-error.ts";
import type { Log } from "./log.ts";

/** Throws `invalid_setting` with what is wrong with the file. */
export function readDeclared(
  { configFile }: Pick<Settings, "configFile">,
  environment: Environment,
): Promise<readonly FileConnector[]> {
  if (configFile === null) return Promise.resolve([]);
  return asSetting(readConnectors(configFile, environment));
}

/**
 * One that is as declared goes on undisturbed; others that are stored stay. `send` answers as the service would. Throws
 * `invalid_setting` with all that is refused, and then none is changed.
 */
export async function applyDeclared(
  declared: readonly FileConnector[],
  { authentication: { basic, bearer } }: Pick<Settings, "authentication">,
  send: (request: Request) => Promise<Response>,
  log: Log,
): Promise<void> {
  if (declared.length === 0) return;
  const { username = null, password = null } = basic ?? {};
  const access = { url: "http://127.0.0.1", username, password, token: bearer?.token ?? null };
  const client = new ServiceClient(access, send);
  const events: ApplyEvents = {
    told: (connector, outcome) => log.info({ connector, outcome }, "connector is declared"),
    // One that is being deleted, for instance, does not keep the others.
    failed: (connector, { message }) =>
      log.error({ connector, reason: message }, "connector could not be declared"),
  };
  await asSetting(applyConnectors(client, declared, events));
}

async function asSetting<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof CommandFailure)) throw error;
    throw new MillraceError("invalid_setting", `--config (MILLRACE_CONFIG): ${error.message}`);
  }
}
