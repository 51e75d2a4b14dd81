// A way to a server by which what was sent arrives late: also what nobody stands by any more, as a network or a proxy may keep it.

import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

interface Way {
  readonly client: Socket;
  isHeld: boolean;
}

export class LateNetwork implements AsyncDisposable {
  readonly #ways = new Set<Way>();
  readonly #sockets = new Set<Socket>();
  readonly #held: (() => void)[] = [];

  private constructor(
    private readonly listener: Server,
    private readonly target: number,
  ) {}

  static async start(target: number): Promise<LateNetwork> {
    const listener = createServer({ allowHalfOpen: true });
    const network = new LateNetwork(listener, target);
    listener.on("connection", (client: Socket) => network.#join(client));
    listener.listen(0, "127.0.0.1");
    await once(listener, "listening");
    return network;
  }

  get port(): number {
    return (this.listener.address() as AddressInfo).port;
  }

  /** What is sent by connections that are open now does not arrive. */
  hold(): void {
    for (const way of this.#ways) way.isHeld = true;
  }

  /** Clients whose connections are held find them reset. */
  reset(): void {
    for (const { client, isHeld } of this.#ways) if (isHeld) client.resetAndDestroy();
  }

  /** It arrives, in its order. */
  deliver(): void {
    for (const arrive of this.#held.splice(0)) arrive();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.listener.close();
  }

  #join(client: Socket): void {
    const server = connect({ port: this.target, host: "127.0.0.1", allowHalfOpen: true });
    const way: Way = { client, isHeld: false };
    this.#ways.add(way);
    const pass = (arrive: () => void) => (way.isHeld ? this.#held.push(arrive) : arrive());
    for (const socket of [client, server]) {
      this.#sockets.add(socket);
      socket.on("error", () => {});
    }
    client.on("data", (chunk) => pass(() => server.write(chunk)));
    client.on("end", () => pass(() => server.end()));
    server.on("data", (chunk) => {
      if (!client.destroyed) client.write(chunk);
    });
    server.on("close", () => client.destroy());
  }
}
