// What the API shows of the settings: each with where its value comes from, and never a secret. Pure.

import type { SettingReport } from "./connector/service/service-report.ts";
import { type ServeFlags, type Setting, settingTable } from "./setting-table.ts";

const hidden = "***";

export function reportSettings(
  flags: ServeFlags,
  environment: Readonly<Record<string, string | undefined>>,
): SettingReport[] {
  const settings = settingTable.flatMap((group) => group.settings);
  return settings.map((setting) => {
    const { value, source } = givenValue(setting, flags, environment);
    const shown = value === null ? null : shownValue(setting, value);
    return { name: setting.variable, value: shown, source, secret: setting.shown === "secret" };
  });
}

function givenValue(
  setting: Setting,
  flags: ServeFlags,
  environment: Readonly<Record<string, string | undefined>>,
): { readonly value: string | null; readonly source: SettingReport["source"] } {
  const flag = setting.flag === undefined ? undefined : flags[setting.flag];
  if (isGiven(flag)) return { value: flag, source: "Flag" };
  const variable = environment[setting.variable];
  if (isGiven(variable)) return { value: variable, source: "Environment" };
  return { value: setting.default ?? null, source: "Default" };
}

/** An empty flag or variable counts as absent. */
function isGiven(text: string | undefined): text is string {
  return text !== undefined && text.trim() !== "";
}

function shownValue({ shown }: Setting, value: string): string {
  if (shown === "secret") return hidden;
  return shown === "address" ? withoutCredentials(value) : value;
}

/** Parameters of an address that are shown. Any other one may be a password, a key or a token. */
const openParameters = ["sslmode", "application_name", "connect_timeout"];

function withoutCredentials(address: string): string {
  if (!URL.canParse(address)) return hidden;
  const url = new URL(address);
  // Of a password with / or ? in it, which is not where it belongs, a part would be shown.
  if (/@|%40/i.test(url.pathname + url.search + url.hash)) return hidden;
  if (url.password !== "") url.password = hidden;
  const parameters = [...url.searchParams].map(([name, value]) => {
    return `${encodeURIComponent(name)}=${openParameters.includes(name) ? encodeURIComponent(value) : hidden}`;
  });
  url.search = parameters.join("&");
  url.hash = "";
  return url.href;
}
