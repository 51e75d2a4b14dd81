// A database's address as people have it at hand: postgres://user:password@host:port/database?sslmode=… Pure.

import type { PostgresConnectionRequest } from "../../../../src/connector/config/connection.ts";

type SslMode = NonNullable<PostgresConnectionRequest["ssl_mode"]>;
export type PastedConnection = Partial<
  Pick<PostgresConnectionRequest, "host" | "port" | "user" | "password" | "database" | "ssl_mode">
>;

const sslModes: Readonly<Record<string, SslMode>> = {
  disable: "Disable",
  allow: "Prefer",
  prefer: "Prefer",
  require: "Require",
  "verify-ca": "VerifyCa",
  "verify-full": "VerifyFull",
};

/** Null: the text is no such address. */
export function connectionOf(text: string): PastedConnection | null {
  if (!/^postgres(?:ql)?:\/\//i.test(text.trim())) return null;
  const url = URL.parse(text.trim().replace(/^postgres(?:ql)?:/i, "http:"));
  if (!url) return null;
  const sslMode = sslModes[url.searchParams.get("sslmode") ?? ""];
  const [host, user, password] = [url.hostname, decoded(url.username), decoded(url.password)];
  const database = decoded(url.pathname.slice(1));
  return {
    ...(host && { host: host.replaceAll(/^\[|\]$/g, "") }),
    // `http:` hides its own default.
    ...(/:80(?:[/?]|$)/.test(text) ? { port: 80 } : url.port && { port: Number(url.port) }),
    ...(user && { user }),
    ...(password && { password }),
    ...(database && { database }),
    ...(sslMode && { ssl_mode: sslMode }),
  };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
