// A connection pooler in transaction mode: all clients share one session of the server, each for a transaction at a time. As
// PgBouncer does, it drops what the session hears while nobody has it.

import { type AddressInfo, connect, createServer, type Socket } from "node:net";

interface Client {
  readonly socket: Socket;
  /** What it has said, and the server has not got yet. */
  readonly waiting: Buffer[];
}

export class LendingPooler implements AsyncDisposable {
  readonly #clients = new Set<Client>();
  /** Who has the session until the server is ready for the next transaction. */
  #borrower: Client | null = null;

  private constructor(
    private readonly session: Socket,
    /** What each client is told at its start. */
    private readonly greeting: Buffer,
    private readonly server = createServer((socket) => this.#join(socket)),
  ) {}

  static async start(to: number): Promise<LendingPooler> {
    const session = connect(to, "127.0.0.1");
    const body = Buffer.from("\0\x03\0\0user\0postgres\0database\0postgres\0\0", "latin1");
    session.write(framed(body));
    const heard: Buffer[] = [];
    const greeted = Promise.withResolvers<Buffer>();
    let pooler: LendingPooler | null = null;
    eachMessage(session, 1, (message) => {
      if (pooler) return pooler.#tell(message);
      if (message[0] === keyData) message.writeInt32BE(0x7fff_0000, header);
      heard.push(message);
      if (message[0] === ready) greeted.resolve(Buffer.concat(heard));
    });
    pooler = new LendingPooler(session, await greeted.promise);
    await new Promise<void>((resolve) => pooler.server.listen(0, "127.0.0.1", resolve));
    return pooler;
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { socket } of this.#clients) socket.destroy();
    this.session.destroy();
    await new Promise((resolve) => this.server.close(resolve));
  }

  #join(socket: Socket): void {
    const client: Client = { socket, waiting: [] };
    this.#clients.add(client);
    socket.on("error", () => {});
    socket.on("close", () => this.#clients.delete(client));
    // The first message has no letter.
    let isStarted = false;
    eachMessage(socket, 0, (message) => {
      if (isStarted && message[0] !== terminate) client.waiting.push(message);
      if (!isStarted) socket.write(this.greeting);
      isStarted = true;
      this.#lend();
    });
  }

  #lend(): void {
    this.#borrower ??= [...this.#clients].find(({ waiting }) => waiting.length > 0) ?? null;
    for (const message of this.#borrower?.waiting.splice(0) ?? []) this.session.write(message);
  }

  #tell(message: Buffer): void {
    this.#borrower?.socket.write(message);
    if (message[0] !== ready || message[header] !== "I".charCodeAt(0)) return;
    this.#borrower = null;
    this.#lend();
  }
}

const [keyData, ready, terminate] = ["K", "Z", "X"].map((letter) => letter.charCodeAt(0));
/** A letter, and the length. */
const header = 5;

function framed(body: Buffer): Buffer {
  const length = Buffer.alloc(4);
  length.writeInt32BE(4 + body.length);
  return Buffer.concat([length, body]);
}

/** A message is a letter, which the first one lacks where `letters` is 0, its length, and its body. */
function eachMessage(socket: Socket, letters: 0 | 1, take: (message: Buffer) => void): void {
  let held = Buffer.alloc(0);
  let before: number = letters;
  socket.on("data", (chunk: Buffer) => {
    held = Buffer.concat([held, chunk]);
    while (held.length >= before + 4) {
      const length = before + held.readInt32BE(before);
      if (held.length < length) return;
      const message = Buffer.from(held.subarray(0, length));
      held = held.subarray(length);
      before = 1;
      take(message);
    }
  });
}
