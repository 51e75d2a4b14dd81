// The tests of a source or a sink as the page shows them. Pure.

import type { ValidateEvent, ValidateTest } from "../../../../src/connector/validation.ts";
import type { Tone } from "../../../connector/condition.ts";

export interface ShownCheck {
  readonly id: string;
  readonly title: string;
  readonly tone: Tone;
  readonly word: string;
  /** What was found, in sentences; the same is said once. */
  readonly details: readonly string[];
  readonly commands: readonly string[];
}

export interface ShownChecks {
  /** Those that want something first. */
  readonly checks: readonly ShownCheck[];
  readonly failed: number;
  readonly warned: number;
}

const ranks: Readonly<Record<Tone, number>> = { bad: 0, warning: 1, busy: 2, idle: 3, good: 4 };

export function shownChecks(events: readonly ValidateEvent[]): ShownChecks {
  const checks = events
    .flatMap(({ test }) => (test ? [shownCheck(test)] : []))
    .map((check, at) => ({ check, at }))
    .sort((a, b) => ranks[a.check.tone] - ranks[b.check.tone] || a.at - b.at)
    .map(({ check }) => check);
  const count = (tone: Tone) => checks.filter((check) => check.tone === tone).length;
  return { checks, failed: count("bad"), warned: count("warning") };
}

function shownCheck(test: ValidateTest): ShownCheck {
  const { Permission, Config } = test.test_type;
  const found = Permission ?? Config;
  const [tone, word] = outcomeOf(test);
  const reason = test.status.Failed?.reason ?? test.status.Skipped?.reason;
  const wantsSomething = tone === "bad" || tone === "warning";
  const commands = test.commands ?? found?.suggestions ?? [];
  const texts = [reason, test.message].filter((text): text is string => Boolean(text));
  const details = texts.length > 0 ? texts : [found?.description ?? ""].filter(Boolean);
  return {
    id: test.id,
    title: titleOf(test),
    tone,
    word,
    details: [...new Set(details)],
    commands: wantsSomething ? commands : [],
  };
}

function outcomeOf({ status }: ValidateTest): readonly [Tone, string] {
  if (status.Failed) return ["bad", "Failed"];
  if (status.Warn) return ["warning", "Warning"];
  if (status.Success) return ["good", "Passed"];
  if (status.Skipped) return ["idle", "Skipped"];
  return ["busy", "Running"];
}

function titleOf({ test_type: type }: ValidateTest): string {
  if (type.Network) return type.Network.subtype === "DnsResolution" ? "Host name" : "Network";
  if (type.TLS) return "TLS";
  if (type.Connection) return "Connection";
  if (type.Authentication) return "Log-in";
  if (type.ServerInfo) return type.ServerInfo.version ? `Server: ${type.ServerInfo.version}` : "Server";
  if (type.Permission) return `Privilege: ${type.Permission.name}`;
  return `Setting: ${type.Config?.name ?? ""}`;
}
