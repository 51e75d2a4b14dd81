// A receiver that does with HTTP what no library would: it sees each request's bytes, and says what goes back, byte for byte.

import { createServer, type Socket } from "node:net";

export interface RawRequest {
  /** From 0, over all connections. */
  readonly index: number;
  /** Which connection it came on, from 0. */
  readonly connection: number;
  readonly socket: Socket;
  readonly body: string;
}

export interface RawReceiver extends AsyncDisposable {
  readonly port: number;
  readonly requests: readonly RawRequest[];
}

export interface RawOptions {
  readonly hostname?: string;
  readonly port?: number;
  /** A request is there when its headers are: nothing behind them is read. */
  readonly atHeaders?: boolean;
}

/** `answer` is called for each request once it is there, and writes to its socket what it likes. */
export async function rawReceiver(
  answer: (request: RawRequest) => void,
  { hostname = "127.0.0.1", port = 0, atHeaders = false }: RawOptions = {},
): Promise<RawReceiver> {
  const requests: RawRequest[] = [];
  const sockets = new Set<Socket>();
  let connections = 0;
  const server = createServer((socket) => {
    const connection = connections++;
    sockets.add(socket);
    let bytes = Buffer.alloc(0);
    socket.on("error", () => undefined);
    socket.on("close", () => sockets.delete(socket));
    socket.on("data", (chunk: Buffer) => {
      bytes = Buffer.concat([bytes, chunk]);
      for (let body = bodyEnd(bytes); body !== null; body = bodyEnd(bytes)) {
        if (!atHeaders && body.end > bytes.length) return;
        const text = bytes.subarray(body.start, body.end).toString();
        bytes = atHeaders ? Buffer.alloc(0) : bytes.subarray(body.end);
        if (atHeaders) socket.pause();
        const request = { index: requests.length, connection, socket, body: text };
        requests.push(request);
        answer(request);
      }
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, hostname, resolve);
  });
  return {
    port: (server.address() as { port: number }).port,
    requests,
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

/** Where the body of the first request lies; null while its headers are on their way. */
function bodyEnd(bytes: Buffer): { readonly start: number; readonly end: number } | null {
  const at = bytes.indexOf("\r\n\r\n");
  if (at < 0) return null;
  const head = bytes.subarray(0, at).toString();
  const length = Number(/^content-length: (\d+)/im.exec(head)?.[1] ?? 0);
  return { start: at + 4, end: at + 4 + length };
}
