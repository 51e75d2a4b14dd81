// The command rotate-key: rotates the encryption key of the state that `serve` would use with the same settings.

import { type Environment, readNewEncryptionKey, readStateSettings } from "./config.ts";
import { toMillraceError } from "./errors/millrace-error.ts";
import type { ServeFlags } from "./setting-table.ts";
import { rotateKey } from "./state/secrets/key-rotation.ts";

/** Returns the exit code. */
export async function rotateKeyOf(
  flags: Pick<ServeFlags, "dataDir">,
  environment: Environment,
  out: Pick<Console, "log" | "error">,
): Promise<number> {
  try {
    const settings = readStateSettings(flags, environment);
    const { connectors, keyFile } = await rotateKey(settings, readNewEncryptionKey(environment));
    const where =
      keyFile ?? "MILLRACE_NEW_ENCRYPTION_KEY: set MILLRACE_ENCRYPTION_KEY to it before the next start";
    out.log(`The secrets of ${connectors} connectors are sealed under a new key, that of ${where}.`);
    return 0;
  } catch (error) {
    const { code, message } = toMillraceError(error);
    out.error(`millrace rotate-key: ${message} (${code})`);
    return 1;
  }
}
