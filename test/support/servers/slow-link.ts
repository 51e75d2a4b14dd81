// A network of little throughput: what clients send to a port on loopback passes at a rate that all connections share.

import { connect, createServer, type Server, type Socket } from "node:net";
import { freePort } from "../../../src/demo/free-port.ts";

export class SlowLink implements AsyncDisposable {
  readonly #sockets = new Set<Socket>();
  /** When all that has come by now has passed. */
  #freeAtMs = 0;
  #passed = 0;

  private constructor(
    private readonly server: Server,
    readonly port: number,
    targetPort: number,
    /** Null: as fast as it goes. */
    public bytesPerSecond: number | null,
  ) {
    server.on("connection", (client) => this.#accept(client, targetPort));
  }

  static async start(targetPort: number, bytesPerSecond: number | null): Promise<SlowLink> {
    const port = await freePort();
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
    return new SlowLink(server, port, targetPort, bytesPerSecond);
  }

  /** Bytes that clients have sent so far. */
  get passed(): number {
    return this.#passed;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.server.close(resolve));
  }

  #accept(client: Socket, targetPort: number): void {
    const upstream = connect(targetPort, "127.0.0.1");
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      this.#sockets.add(socket);
      socket.on("error", () => other.destroy());
      socket.on("close", () => {
        this.#sockets.delete(socket);
        other.destroy();
      });
    }
    upstream.pipe(client, { end: false });
    client.on("data", (chunk: Buffer) => void this.#pass(chunk, client, upstream));
  }

  /** A connection's next chunk waits until this one has passed, so that a short one never waits for long. */
  async #pass(chunk: Buffer, client: Socket, upstream: Socket): Promise<void> {
    this.#passed += chunk.length;
    const now = performance.now();
    const ms = this.bytesPerSecond === null ? 0 : (chunk.length / this.bytesPerSecond) * 1_000;
    this.#freeAtMs = Math.max(now, this.#freeAtMs) + ms;
    client.pause();
    if (ms > 0) await Bun.sleep(this.#freeAtMs - now);
    if (upstream.destroyed) return;
    if (upstream.write(chunk)) client.resume();
    else upstream.once("drain", () => client.resume());
  }
}
