// The service's log: JSON lines, or readable lines on a terminal. Without transport threads, which do not survive
// compiling.

import { Writable } from "node:stream";
import pino from "pino";
import { oneLine, plainLines } from "./cli/text/text-table.ts";
import { withoutValues } from "./errors/row-in-reason.ts";
import type { LogLevel } from "./setting-table.ts";

export type Log = pino.Logger;

/** The values of these keys are never written, at up to three levels. */
const secretKeys = [
  "password",
  "ssl_cert",
  "ssl_key",
  "ssl_root_cert",
  "private_key",
  "token",
  "value",
  "secret",
  "salt",
  "authorization",
  // Of the OTLP collector, and the address of alerts, which at a chat service is a secret.
  "headers",
  "alerts",
];

export interface LogOptions {
  readonly level: LogLevel;
  /** Lines for people instead of JSON. */
  readonly readable: boolean;
  readonly write: (line: string) => void;
}

export function createLog(options: LogOptions): Log {
  const write = options.readable ? (line: string) => options.write(readableLine(line)) : options.write;
  const settings: pino.LoggerOptions = {
    level: options.level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
    redact: {
      paths: secretKeys.flatMap((key) => [key, `*.${key}`, `*.*.${key}`, `*.*.*.${key}`]),
      censor: "***",
    },
    serializers: { error: describeError, reason: describeReason },
  };
  return pino(settings, new Writable({ decodeStrings: false, write: passOn(write) }));
}

function passOn(write: (line: string) => void) {
  return (line: string | Buffer, _encoding: string, done: () => void) => {
    write(line.toString());
    done();
  };
}

/** Name, code, message, stack and causes, and no other property, because errors of drivers contain row values. */
function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return String(error);
  const code = (error as { code?: unknown }).code;
  return {
    name: error.name,
    ...(typeof code === "string" ? { code } : {}),
    message: withoutValues(error.message),
    stack: withoutValues(error.stack ?? ""),
    ...(error.cause === undefined ? {} : { cause: describeError(error.cause) }),
  };
}

/** The reason in a status. */
function describeReason(reason: unknown): unknown {
  return typeof reason === "string" ? withoutValues(reason) : reason;
}

const colours: Readonly<Record<string, string>> = {
  debug: "\x1b[2m",
  info: "\x1b[32m",
  warn: "\x1b[33m",
  error: "\x1b[31m",
};
const plain = "\x1b[0m";

/** `12:00:00.000 info  message  key=value …`, with the stack below. */
function readableLine(json: string): string {
  const { time, level, msg, error, ...fields } = JSON.parse(json) as Record<string, unknown>;
  const clock = String(time).slice(11, 23);
  const label = `${colours[String(level)] ?? ""}${String(level).padEnd(5)}${plain}`;
  const details = Object.entries(fields).map(([key, value]) => oneLine(`${key}=${readableValue(value)}`));
  const failure = error as { message?: string; stack?: string } | undefined;
  const reason =
    failure === undefined ? "" : `\n  ${plainLines(failure.stack ?? failure.message ?? String(error))}`;
  const tail = details.length > 0 ? `  \x1b[2m${details.join(" ")}${plain}` : "";
  return `${clock} ${label} ${oneLine(String(msg ?? ""))}${tail}${reason}\n`;
}

function readableValue(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
