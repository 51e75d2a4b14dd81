import { dlopen, ptr } from "bun:ffi";
import { expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { connect, createServer, type ListenOptions, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { keepReceiveBufferSmall } from "../../src/connection/receive-buffer.ts";

interface Open {
  readonly _handle: { readonly fd: number };
}

/** As the kernel has it: twice what was asked for. */
function receiveBuffer({ _handle: { fd } }: Open): number {
  const { symbols } = dlopen("libc.so.6", {
    getsockopt: { args: ["i32", "i32", "i32", "ptr", "ptr"], returns: "i32" },
  });
  const value = new Int32Array(1);
  expect(symbols.getsockopt(fd, 1, 8, ptr(value), ptr(new Uint32Array([4])))).toBe(0);
  return value[0] ?? 0;
}

/** Before and after. */
async function receiveBuffers(
  on: ListenOptions,
  open: (port: number) => Socket,
): Promise<readonly [number, number]> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(on, resolve));
  const address = server.address();
  const socket = open(typeof address === "object" && address !== null ? address.port : 0);
  try {
    await new Promise((resolve) => socket.once("connect", resolve));
    const opened = socket as unknown as Open;
    const before = receiveBuffer(opened);
    keepReceiveBufferSmall(opened);
    return [before, receiveBuffer(opened)];
  } finally {
    socket.destroy();
    server.close();
  }
}

test.if(process.platform === "linux")("of a near server, and of what is no TCP connection", async () => {
  const [, small] = await receiveBuffers({ port: 0, host: "127.0.0.1" }, (port) =>
    connect(port, "127.0.0.1"),
  );
  expect(small).toBe(2 * 48 * 1024);
  const directory = await mkdtemp(join(tmpdir(), "millrace-socket-"));
  const path = join(directory, "s");
  const [before, after] = await receiveBuffers({ path }, () => connect(path));
  expect(after).toBe(before);
  await rm(directory, { recursive: true });
});

test("what is no socket, or is not connected", () => {
  expect(() => keepReceiveBufferSmall({})).not.toThrow();
  expect(() => keepReceiveBufferSmall({ _handle: null })).not.toThrow();
  expect(() => keepReceiveBufferSmall({ _handle: { fd: 1_000_000 } })).not.toThrow();
});
