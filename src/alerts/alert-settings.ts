// The settings of alerts, from the environment. Pure.

import { egressPolicy, literalRefusal } from "../connection/egress.ts";
import { signingSecretForm } from "../connector/config/webhook-config.ts";
import { invalidSetting } from "../errors/invalid-input.ts";

export interface AlertSettings {
  /** Where alerts are posted to. It may be a secret itself: chat services put theirs into the path. */
  readonly url: string;
  /** Signs alerts by Standard Webhooks; null: they are not signed. */
  readonly secret: string | null;
}

/** Null: no alerts are sent. Throws `invalid_setting` with what to write instead, never with the value. */
export function readAlertSettings(variable: (name: string) => string | null): AlertSettings | null {
  const url = variable("MILLRACE_ALERT_URL");
  const secret = variable("MILLRACE_ALERT_SECRET");
  if (url === null) {
    if (secret === null) return null;
    throw invalidSetting(
      "MILLRACE_ALERT_SECRET signs what goes to MILLRACE_ALERT_URL: set that too, or neither.",
    );
  }
  if (!isPlainHttpUrl(url)) {
    throw invalidSetting(
      "MILLRACE_ALERT_URL must be an http or https address without user, password and fragment, like " +
        "https://chat.example.com/hooks/abc.",
    );
  }
  refuseAddress(new URL(url).hostname, variable);
  if (secret !== null && !signingSecretForm.test(secret)) {
    throw invalidSetting(
      "MILLRACE_ALERT_SECRET must be whsec_ and the base64 of 24 to 64 bytes. Make one with: " +
        'echo "whsec_$(openssl rand -base64 32)"',
    );
  }
  return { url, secret };
}

/** Of a name DNS decides, at each alert. */
function refuseAddress(host: string, variable: (name: string) => string | null): void {
  const policy = egressPolicy({ MILLRACE_WEBHOOK_EGRESS: variable("MILLRACE_WEBHOOK_EGRESS") ?? undefined });
  const why = literalRefusal(host, policy);
  if (why === null) return;
  const remedy =
    literalRefusal(host, "default") === null
      ? "set it to a public address, or unset MILLRACE_WEBHOOK_EGRESS"
      : "set it to another address";
  throw invalidSetting(
    `MILLRACE_ALERT_URL names an address that ${why}, and nothing is sent there: ${remedy}.`,
  );
}

function isPlainHttpUrl(text: string): boolean {
  return /^https?:\/\/[^\s@#]+$/i.test(text) && URL.canParse(text);
}
