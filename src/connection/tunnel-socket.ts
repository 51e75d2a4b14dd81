// A socket that reaches its host through an SSH server. Its users, pg and TLS among them, need a real TCP socket, so it
// connects to a listener in this process, which pipes the bytes to the SSH channel. A stream that only imitates a
// socket would not do: TLS over one accepts bytes without bound while the peer does not read.

import { createServer, type Server, Socket, type SocketConnectOpts } from "node:net";
import { pipeline } from "node:stream/promises";
import type { SshTunnel } from "../connector/config/bastions.ts";
import { type BastionChannel, type Destination, openBastionChannel } from "./bastion-channel.ts";
import { TunnelFailure } from "./tunnel-failure.ts";

const loopback = "127.0.0.1";

export class TunnelSocket extends Socket {
  readonly #over = new AbortController();
  #hostKey: string | null = null;

  constructor(private readonly ssh: SshTunnel) {
    super();
    this.once("close", () => this.#over.abort(new TunnelFailure("lost", "The connection was given up.")));
  }

  /** The fingerprint of the SSH server's host key; null: it has not let us in yet. */
  get hostKey(): string | null {
    return this.#hostKey;
  }

  /** `connect(port, host)` or `connect(path)`, as the SSH server sees them. A failure is an `error` event. */
  override connect(...args: readonly unknown[]): this {
    const [first, host] = args;
    const to = typeof first === "string" ? { path: first } : { port: Number(first), host: String(host) };
    this.#open(to).catch((error: unknown) => this.destroy(error instanceof Error ? error : undefined));
    return this;
  }

  async #open(to: Destination): Promise<void> {
    const channel = await openBastionChannel(this.ssh, to, this.#over.signal);
    this.#hostKey = channel.hostKey;
    const close = () => channel.close();
    this.#over.signal.addEventListener("abort", close, { once: true });
    if (this.#over.signal.aborted) return close();
    const { port, ownEnd } = await listenFor(this, this.#over.signal);
    const options: SocketConnectOpts = { port, host: loopback };
    super.connect(options);
    await carry(await ownEnd, channel, () =>
      this.destroy(new TunnelFailure("lost", "The SSH connection was lost.")),
    );
  }
}

/** Pipes both ways. Resolves when both directions have ended; always closes both ends. */
async function carry(local: Socket, channel: BastionChannel, onLost: () => void): Promise<void> {
  local.setNoDelay(true);
  try {
    await Promise.all([pipeline(local, channel.stream), pipeline(channel.stream, local)]);
  } catch {
    // One side broke off: the other must not wait for it.
  } finally {
    // If the channel ended in order, the socket delivers what the database sent last, and then ends.
    if (channel.isLost) onLost();
    local.destroy();
    channel.close();
  }
}

interface Listening {
  readonly port: number;
  /** The accepted end of `dialler`'s connection. */
  readonly ownEnd: Promise<Socket>;
}

/** Listens on a port for `dialler` alone; any other connection is closed. */
async function listenFor(dialler: Socket, signal: AbortSignal): Promise<Listening> {
  const server = createServer({ allowHalfOpen: true });
  const own = Promise.withResolvers<Socket>();
  own.promise.catch(() => {});
  const waiting = new Set<Socket>();
  const choose = () => {
    if (dialler.localPort === undefined) return;
    for (const socket of waiting) {
      if (socket.remotePort === dialler.localPort) own.resolve(socket);
      else socket.destroy();
      waiting.delete(socket);
    }
  };
  server.on("connection", (socket) => {
    socket.on("error", () => {});
    waiting.add(socket);
    choose();
  });
  dialler.once("connect", choose);
  const close = () => {
    own.reject(signal.reason);
    for (const socket of waiting) socket.destroy();
    server.close();
  };
  signal.addEventListener("abort", close, { once: true });
  void own.promise.then(close, () => {});
  return { port: await listen(server), ownEnd: own.promise };
}

async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, loopback, resolve);
  });
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port was bound");
  return address.port;
}
