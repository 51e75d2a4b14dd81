// Opens a channel to a host and port as an SSH server sees them: logs in with a key, then asks the server to connect.
// The servers are tried in the order given. Each channel has an SSH connection of its own: it is owned by one database
// connection, and a stalled copy does not hold up what others send.
// https://www.rfc-editor.org/rfc/rfc4254#section-7.2
//
// A server must present one of the tunnel's host keys. Without any, every key is accepted: then only TLS to the
// database, which runs inside the tunnel, can tell whom one talks to.

import { connect, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { Client } from "ssh2";
import { type Bastion, bastionsOf, type SshTunnel } from "../connector/config/bastions.ts";
import {
  hostKeyAlgorithms,
  hostKeyFingerprint,
  hostKeysOf,
  hostKeyType,
} from "../connector/config/host-keys.ts";
import { TunnelFailure, worstOf } from "./tunnel-failure.ts";

/** A port, or the path of a Unix socket, as the SSH server sees it. */
export type Destination = { readonly host: string; readonly port: number } | { readonly path: string };

export interface BastionChannel {
  readonly stream: Duplex;
  /** The fingerprint of the SSH server's host key. */
  readonly hostKey: string;
  /** The SSH connection is closed. */
  readonly isLost: boolean;
  /** Closes without waiting. */
  close(): void;
}

/** For each server: from the first packet until the channel is open. */
export const bastionTimeoutMs = 8_000;
/** A server that misses three in a row is gone. TCP would notice a silent network much later, or never. */
const keepaliveMs = 3_000;
const keepalivesMissed = 2;

/** Throws a TunnelFailure when no server leads to `to`, or `signal.reason`. */
export async function openBastionChannel(
  ssh: SshTunnel,
  to: Destination,
  signal: AbortSignal,
): Promise<BastionChannel> {
  const failures: TunnelFailure[] = [];
  for (const bastion of bastionsOf(ssh)) {
    try {
      return await openThrough(bastion, ssh, to, signal);
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof TunnelFailure)) throw error;
      failures.push(error);
    }
  }
  throw worstOf(failures);
}

async function openThrough(
  bastion: Bastion,
  ssh: SshTunnel,
  to: Destination,
  signal: AbortSignal,
): Promise<BastionChannel> {
  // The library takes 17 MB: load it only where a tunnel is used.
  const { Client } = await import("ssh2");
  const socket = connect(bastion.port, bastion.host);
  const client = new Client();
  const failed = Promise.withResolvers<never>();
  let isLost = false;
  let hostKey = "";
  failed.promise.catch(() => {});
  socket.on("error", (error: Error) => failed.reject(describeSocket(error)));
  socket.on("close", () => {
    failed.reject(new TunnelFailure("unreachable", "The SSH server closed the connection."));
    isLost = true;
  });
  client.on("error", (error: SshError) => failed.reject(describeSsh(error)));
  const limit = AbortSignal.any([signal, AbortSignal.timeout(bastionTimeoutMs)]);
  const onLimit = () =>
    failed.reject(new TunnelFailure("unreachable", "The SSH server did not answer in time."));
  limit.addEventListener("abort", onLimit, { once: true });
  const close = () => {
    client.destroy();
    socket.destroy();
  };
  try {
    limit.throwIfAborted();
    await Promise.race([connected(socket), failed.promise]);
    const verify = (key: Buffer) => {
      hostKey = hostKeyFingerprint(key);
      const problem = hostKeyRefusal(key, ssh);
      // First: the library's own error only says that the server was denied.
      if (problem !== null) failed.reject(problem);
      return problem === null;
    };
    await Promise.race([loggedIn(client, socket, ssh, verify), failed.promise]);
    const stream = await Promise.race([forward(client, to), failed.promise]);
    return {
      stream,
      hostKey,
      close,
      get isLost() {
        return isLost;
      },
    };
  } catch (error) {
    close();
    throw error;
  } finally {
    limit.removeEventListener("abort", onLimit);
  }
}

async function connected(socket: Socket): Promise<void> {
  // The protocol is a dialogue of small packets: Nagle's algorithm would delay each of them.
  socket.setNoDelay(true);
  await new Promise<void>((resolve) => socket.once("connect", resolve));
}

/** Why the server's host key is not accepted; null: it is. */
function hostKeyRefusal(key: Buffer, { host_keys: entries }: SshTunnel): TunnelFailure | null {
  if (entries === undefined) return null;
  const wanted = hostKeysOf(entries).map(({ fingerprint }) => fingerprint);
  const seen = hostKeyFingerprint(key);
  if (wanted.includes(seen)) return null;
  return new TunnelFailure(
    "refused",
    `The SSH server presented host key ${seen} (${hostKeyType(key) ?? "of no type"}), and host_keys expects ` +
      `${wanted.join(" or ")}. Somebody may be in between. If the server really has this key now (ask whoever runs it), ` +
      "put it into host_keys. Of a server with keys of several kinds give the whole key (`ssh-rsa AAAA…`): a fingerprint does not tell the kind.",
  );
}

async function loggedIn(
  client: Client,
  sock: Socket,
  ssh: SshTunnel,
  verify: (key: Buffer) => boolean,
): Promise<void> {
  const { generated_key: generated, bring_your_own_key: own } = ssh.auth;
  await new Promise<void>((resolve, reject) => {
    client.once("ready", resolve);
    try {
      client.connect({
        sock,
        username: ssh.user,
        privateKey: (generated ?? own)?.private_key ?? "",
        authHandler: ["publickey"],
        hostVerifier: verify,
        // library edge: the types list the names of algorithms.
        algorithms: { serverHostKey: hostKeyAlgorithms(hostKeysOf(ssh.host_keys ?? [])) as never },
        readyTimeout: 0,
        keepaliveInterval: keepaliveMs,
        keepaliveCountMax: keepalivesMissed,
      });
    } catch {
      // The library's message may repeat parts of the key.
      reject(
        new TunnelFailure(
          "refused",
          "The tunnel's private key cannot be read, or has a passphrase: give another.",
        ),
      );
    }
  });
}

async function forward(client: Client, to: Destination): Promise<Duplex> {
  return await new Promise<Duplex>((resolve, reject) => {
    const settle = (error: Error | undefined, stream: Duplex) =>
      error ? reject(describeRefusal(error)) : resolve(stream);
    if ("path" in to) client.openssh_forwardOutStreamLocal(to.path, settle);
    else client.forwardOut("127.0.0.1", 0, to.host, to.port, settle);
  });
}

type SshError = Error & { readonly level?: string };

function describeSsh(error: SshError): TunnelFailure {
  switch (error.level) {
    case "client-authentication":
      return new TunnelFailure(
        "refused",
        "The SSH server refused the user or the key: add the key's public half to that user's authorized_keys.",
      );
    case "client-timeout":
      return new TunnelFailure("unreachable", "The SSH server did not answer in time.");
    case "handshake":
      return new TunnelFailure("unreachable", "The SSH server shares no algorithm with this client.");
    default:
      return new TunnelFailure("unreachable", "The SSH server broke the connection off.");
  }
}

function describeSocket(error: Error & { readonly code?: string }): TunnelFailure {
  switch (error.code) {
    case "ECONNREFUSED":
      return new TunnelFailure(
        "unreachable",
        "Nothing listens at the SSH server's host and port (ECONNREFUSED).",
      );
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return new TunnelFailure("unreachable", "The SSH server's host name does not resolve.");
    default:
      return new TunnelFailure("unreachable", "The SSH server is not to be reached.");
  }
}

/** SSH_OPEN_ADMINISTRATIVELY_PROHIBITED. https://www.rfc-editor.org/rfc/rfc4254#section-5.1 */
const prohibited = 1;

function describeRefusal(error: Error & { readonly reason?: unknown }): TunnelFailure {
  const text =
    error.reason === prohibited
      ? "The SSH server does not allow the tunnel (AllowTcpForwarding, PermitOpen)."
      : "The SSH server cannot reach the database's host and port.";
  return new TunnelFailure("unreachable", text);
}
