// Applies the connectors that a file declares when the service starts, through its own API and its rules.

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
 * A connector that is as declared continues undisturbed; stored connectors that the file lacks are kept. `send` answers
 * as the service would. Throws `invalid_setting` with everything that is refused; then nothing is changed.
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
    applied: (connector, outcome) => log.info({ connector, outcome }, "connector is declared"),
    // A connector that is being deleted, for instance, must not hold up the others.
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
