// A proxy that looks like a connection pooler: it gives each session a process id of its own, and may drop the settings that
// a client starts a session with.

import { type AddressInfo, connect, createServer } from "node:net";

/** `isDropping`: as PgBouncer does under `ignore_startup_parameters = options`. */
export async function startPooler(
  to: number,
  { isDropping = false } = {},
): Promise<{ port: number } & AsyncDisposable> {
  const proxy = createServer((client) => {
    const upstream = connect(to, "127.0.0.1");
    client.on("data", (chunk: Buffer) => {
      upstream.write(isDropping && isStartup(chunk) ? withoutOptions(chunk) : chunk);
    });
    upstream.on("data", (chunk: Buffer) => {
      const at = chunk.indexOf(keyData);
      if (at >= 0) chunk.writeInt32BE(0x7fff_0000, at + keyData.length);
      client.write(chunk);
    });
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      one.on("error", () => {});
      one.on("close", () => other.destroy());
    }
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  return {
    port: (proxy.address() as AddressInfo).port,
    [Symbol.asyncDispose]: async () => {
      await new Promise((resolve) => proxy.close(resolve));
    },
  };
}

/** BackendKeyData, up to the process id. */
const keyData = Buffer.from([0x4b, 0, 0, 0, 12]);
const startupHeader = 8;

/** A StartupMessage has its length, the protocol 3.0, then names and values that each end with a zero byte, and another one. */
function isStartup(chunk: Buffer): boolean {
  return (
    chunk.length > startupHeader && chunk.readInt32BE(0) === chunk.length && chunk.readInt32BE(4) === 0x3_0000
  );
}

function withoutOptions(startup: Buffer): Buffer {
  const words = startup.toString("latin1", startupHeader).split("\0");
  words.splice(words.indexOf("options"), 2);
  const body = Buffer.from(words.join("\0"), "latin1");
  const kept = Buffer.concat([startup.subarray(0, startupHeader), body]);
  kept.writeInt32BE(kept.length, 0);
  return kept;
}
