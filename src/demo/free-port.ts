// Finds a port that nothing listens on, for servers that cannot choose one themselves.

import { createServer } from "node:net";

/**
 * Below the ephemeral ports of Linux and macOS. An outgoing connection could otherwise take the port before the server
 * does.
 */
const lowest = 10_240;
const highest = 32_767;

/** Whoever got a port listens on it a moment later: nobody else here may get it meanwhile. */
const given = new Set<number>();

export async function freePort(): Promise<number> {
  while (true) {
    const port = lowest + Math.floor(Math.random() * (highest - lowest + 1));
    if (given.has(port)) continue;
    given.add(port);
    if (await isFree(port)) return port;
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  return await new Promise((resolve) => {
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}
