// The SSH servers that a tunnel may go through, in the order in which they are tried. Pure; src/connection connects to
// them.

import { isIPv6 } from "node:net";
import type { TunnelConfig } from "./connection.ts";

export type SshTunnel = NonNullable<TunnelConfig["ssh"]>;

export interface Bastion {
  /** Name or address, without brackets. */
  readonly host: string;
  readonly port: number;
}

/** `bastion_host`, then the alternates. Without a port of its own, an alternate has `bastion_port`. */
export function bastionsOf(
  ssh: Pick<SshTunnel, "bastion_host" | "bastion_port" | "bastion_alternates">,
): readonly Bastion[] {
  const first = { host: ssh.bastion_host, port: ssh.bastion_port };
  const others = ssh.bastion_alternates.flatMap((text) => parseBastion(text, ssh.bastion_port) ?? []);
  return [first, ...others];
}

/** `host`, `host:port`, `[IPv6 address]:port` or a bare IPv6 address; null for anything else. */
export function parseBastion(text: string, defaultPort: number): Bastion | null {
  const match = /^(?:\[([^\]\s]+)\]|([^\s:[\]/@]+))(?::(\d{1,5}))?$/.exec(text);
  if (!match) return isIPv6(text) ? { host: text, port: defaultPort } : null;
  const port = match[3] === undefined ? defaultPort : Number(match[3]);
  if (port < 1 || port > 65_535) return null;
  return { host: match[1] ?? match[2] ?? "", port };
}
