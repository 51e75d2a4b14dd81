// A TCP proxy that misbehaves when told to: it cuts connections, lets them stall, closes one half of them, or refuses new
// ones.

import { connect, createServer, type Server, type Socket } from "node:net";
import { freePort } from "../../../src/demo/free-port.ts";

interface Pair {
  readonly client: Socket;
  readonly upstream: Socket;
  isStranded: boolean;
  /** Its client waits for a reply that it is not to have. */
  loses?: boolean;
}

export class TcpProxy implements AsyncDisposable {
  readonly #pairs = new Set<Pair>();
  #stalled = false;
  #refusing = false;
  #refused = 0;
  #accepted = 0;
  #said = 0;
  #recorded: Buffer[] | null = null;
  #fatalText: string | null = null;
  #heldText: { readonly text: string; readonly happened: () => void } | null = null;
  #release: (() => void) | null = null;
  #delayed: {
    readonly isMeant: (chunk: Buffer) => boolean;
    readonly happened: (arrive: () => void) => void;
  } | null = null;
  /** Of what clients send: the chunk at which everything is cut. */
  #cutting: { left: number; readonly isPassedOn: boolean; readonly happened: () => void } | null = null;
  #lost: { readonly request: string; readonly reply: string; readonly happened: () => void } | null = null;
  /** What the upstream sends, until there is what it is to be cut at. */
  #splitting: { readonly bytes: Uint8Array; readonly behind: number; held: Buffer } | null = null;
  #isHolding = false;

  private constructor(
    private readonly server: Server,
    /** An address of loopback. */
    readonly host: string,
    readonly port: number,
    /** Where new connections lead to, on loopback. */
    public targetPort: number,
  ) {
    server.on("connection", (client) => this.#accept(client));
  }

  /** Forwards to a port on loopback, by default from any free one. */
  static async start(
    targetPort: number,
    { host = "127.0.0.1", port }: { readonly host?: string; readonly port?: number } = {},
  ): Promise<TcpProxy> {
    const own = port ?? (await freePort());
    const server = createServer({ allowHalfOpen: true });
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(own, host, resolve);
    });
    return new TcpProxy(server, host, own, targetPort);
  }

  /** Connections that were accepted so far. */
  get accepted(): number {
    return this.#accepted;
  }

  /** Connections that were refused so far. */
  get refused(): number {
    return this.#refused;
  }

  /** Chunks that clients have sent so far. */
  get said(): number {
    return this.#said;
  }

  /** Connections whose client is still there. */
  get open(): number {
    return [...this.#pairs].filter(({ client }) => !client.destroyed).length;
  }

  /** Breaks every connection, as a network does that goes away: with a reset, in the middle of whatever is sent. */
  cut(): void {
    for (const pair of [...this.#pairs]) this.#close(pair);
  }

  /** Keeps from here on what the upstream sends. Returns a look at all of it. */
  record(): () => Buffer {
    const recorded: Buffer[] = [];
    this.#recorded = recorded;
    return () => Buffer.concat(recorded);
  }

  /** Nothing passes any more, in either direction; connections stay open. */
  stall(): void {
    this.#stalled = true;
    for (const { client, upstream } of this.#pairs) {
      client.pause();
      upstream.pause();
    }
  }

  resume(): void {
    this.#stalled = false;
    this.#release?.();
    this.#release = null;
    for (const { client, upstream } of this.#pairs) {
      client.resume();
      upstream.resume();
    }
  }

  /** Nothing passes any more over the connections that are open now, not even their end; new ones work. */
  strand(): void {
    for (const pair of this.#pairs) pair.isStranded = true;
  }

  /** A connection whose client sends `text` is stranded before that passes. */
  stallAt(text: string): void {
    this.#fatalText = text;
  }

  /** When a client next sends `text`, everything stalls before that passes. Resolves then; `resume` lets it pass. */
  async holdAt(text: string): Promise<void> {
    await new Promise<void>((happened) => {
      this.#heldText = { text, happened };
    });
  }

  /**
   * The next chunk of a client that is meant is held back, and nothing more passes over its connection. Resolves then, with what lets the
   * chunk arrive.
   */
  async delay(isMeant: (chunk: Buffer) => boolean): Promise<() => void> {
    return await new Promise((happened) => {
      this.#delayed = { isMeant, happened };
    });
  }

  /**
   * The next connection whose client sends `request` is broken when the server's `reply` has come, which is not passed on.
   * Resolves then.
   */
  async loseReply(request: string, reply: string): Promise<void> {
    await new Promise<void>((happened) => {
      this.#lost = { request, reply, happened };
    });
  }

  /**
   * The `count`-th chunk from here on that any client sends is passed on, or is not, and then every connection ends as those of a
   * process do that dies.
   */
  cutAt(count: number, isPassedOn: boolean, happened: () => void): void {
    this.#cutting = { left: count, isPassedOn, happened };
  }

  /** Something is said another way, which `cutAt` counts as a chunk. Returns whether that arrives. */
  step(): boolean {
    const cutting = this.#lastStep();
    if (cutting !== null) this.#endAll(cutting.happened);
    return cutting?.isPassedOn ?? true;
  }

  /**
   * What upstreams send from here on comes in two, once it has `bytes`: up to `behind` of the last of them, and a moment later what
   * follows.
   */
  splitAt(bytes: Uint8Array, behind: number): void {
    this.#splitting = { bytes, behind, held: Buffer.alloc(0) };
  }

  /** A client whose upstream ends keeps its connection from here on, over which nothing is read any more. */
  hold(): void {
    this.#isHolding = true;
  }

  /** Ends one direction of every connection: the client or the server hears that the other will say no more. */
  halfClose(towards: "client" | "upstream"): void {
    for (const pair of this.#pairs) pair[towards].end();
  }

  /** New connections are closed at once. */
  refuse(refusing: boolean): void {
    this.#refusing = refusing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.cut();
    await new Promise((resolve) => this.server.close(resolve));
  }

  #accept(client: Socket): void {
    client.on("error", () => {});
    if (this.#refusing) {
      this.#refused += 1;
      client.resetAndDestroy();
      return;
    }
    this.#accepted += 1;
    const upstream = connect(this.targetPort, "127.0.0.1");
    const pair = { client, upstream, isStranded: false };
    this.#pairs.add(pair);
    this.#forward(client, upstream, pair);
    this.#forward(upstream, client, pair);
    if (this.#stalled) {
      client.pause();
      upstream.pause();
    }
  }

  #forward(from: Socket, to: Socket, pair: Pair): void {
    const isHeld = () => this.#isHolding && from === pair.upstream && to.pause();
    from.on("data", (chunk: Buffer) => {
      if (from === pair.upstream) this.#recorded?.push(Buffer.from(chunk));
      if (this.#fatalText !== null && from === pair.client && chunk.includes(this.#fatalText)) {
        pair.isStranded = true;
      }
      if (from === pair.client && (this.#isHeldAt(chunk, to) || this.#isDelayed(chunk, pair))) return;
      if (from === pair.client) this.#said++;
      if (from === pair.client && this.#isCutAt(chunk, pair)) return;
      if (from === pair.upstream && this.#isSplit(chunk, to)) return;
      if (!pair.isStranded && !this.#isLost(from, chunk, pair) && !to.write(chunk)) from.pause();
    });
    to.on("drain", () => {
      if (!this.#stalled) from.resume();
    });
    from.on("error", () => isHeld() || this.#lose(pair, from));
    from.on("close", () => isHeld() || this.#lose(pair, from));
    from.on("end", () => {
      if (isHeld()) return;
      if (pair.isStranded) from.destroy();
      else to.end();
    });
  }

  #isHeldAt(chunk: Buffer, to: Socket): boolean {
    const held = this.#heldText;
    if (held === null || !chunk.includes(held.text)) return false;
    this.#heldText = null;
    this.stall();
    this.#release = () => to.write(chunk);
    held.happened();
    return true;
  }

  #isDelayed(chunk: Buffer, pair: Pair): boolean {
    const delayed = this.#delayed;
    if (delayed === null || !delayed.isMeant(chunk)) return false;
    this.#delayed = null;
    pair.isStranded = true;
    delayed.happened(() => pair.upstream.write(chunk));
    return true;
  }

  #isCutAt(chunk: Buffer, pair: Pair): boolean {
    const cutting = this.#lastStep();
    if (cutting === null) return false;
    if (cutting.isPassedOn) pair.upstream.write(chunk);
    this.#endAll(cutting.happened);
    return true;
  }

  /** What is counted has come to its end. */
  #lastStep() {
    const cutting = this.#cutting;
    if (cutting === null || --cutting.left > 0) return null;
    this.#cutting = null;
    return cutting;
  }

  #endAll(happened: () => void): void {
    for (const each of [...this.#pairs]) {
      this.#pairs.delete(each);
      each.client.resetAndDestroy();
      // What was sent arrives.
      each.upstream.end();
      each.upstream.resume();
    }
    happened();
  }

  /** Whether the chunk is held back, or was the one at which the upstream's bytes came in two. */
  #isSplit(chunk: Buffer, client: Socket): boolean {
    const splitting = this.#splitting;
    if (splitting === null) return false;
    splitting.held = Buffer.concat([splitting.held, chunk]);
    const at = splitting.held.lastIndexOf(splitting.bytes);
    if (at < 0) return true;
    this.#splitting = null;
    client.write(splitting.held.subarray(0, at + splitting.behind));
    setTimeout(() => client.write(splitting.held.subarray(at + splitting.behind)), 20);
    return true;
  }

  /** Whether the chunk is part of the reply that is not passed on. */
  #isLost(from: Socket, chunk: Buffer, pair: Pair): boolean {
    const lost = this.#lost;
    if (lost === null) return false;
    if (from === pair.client) {
      pair.loses ||= chunk.includes(lost.request);
      return false;
    }
    if (!pair.loses) return false;
    if (chunk.includes(lost.reply)) {
      this.#lost = null;
      this.#close(pair);
      lost.happened();
    }
    return true;
  }

  /** `side` is gone. The other hears of it, unless they were stranded. */
  #lose(pair: Pair, side: Socket): void {
    if (!this.#pairs.has(pair)) return;
    if (!pair.isStranded || (pair.client.destroyed && pair.upstream.destroyed)) this.#close(pair);
    else if (side === pair.client) pair.upstream.once("close", () => this.#pairs.delete(pair));
  }

  #close(pair: Pair): void {
    this.#pairs.delete(pair);
    pair.client.resetAndDestroy();
    pair.upstream.resetAndDestroy();
  }
}
