import { dlopen, ptr } from "bun:ffi";
import { expect, test } from "bun:test";
import { connect, createServer } from "node:net";
import { keepReceiveBufferSmall } from "../../src/connection/receive-buffer.ts";

const isLinux = process.platform === "linux";

interface Open {
  readonly remoteAddress: string;
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

const own = { localAddress: "192.0.2.1", remoteAddress: "192.0.2.1" };

test.if(isLinux).each(["loopback", "its own address"])("within this machine: %s", async (connection) => {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  const socket = connect(address.port, "127.0.0.1");
  await new Promise((resolve) => socket.once("connect", resolve));
  try {
    const open = socket as unknown as Open;
    const before = receiveBuffer(open);
    const { _handle } = open;
    keepReceiveBufferSmall({ localAddress: "192.0.2.1", remoteAddress: "192.0.2.2", _handle });
    expect(receiveBuffer(open)).toBe(before);
    keepReceiveBufferSmall(connection === "its own address" ? { ...own, _handle } : open);
    expect(receiveBuffer(open)).toBe(2 * 48 * 1024);
  } finally {
    socket.destroy();
    server.close();
  }
});

test("what is no socket, or is not connected", () => {
  expect(() => keepReceiveBufferSmall({})).not.toThrow();
  expect(() => keepReceiveBufferSmall({ remoteAddress: "127.0.0.1", _handle: null })).not.toThrow();
  expect(() =>
    keepReceiveBufferSmall({ remoteAddress: "127.0.0.1", _handle: { fd: 1_000_000 } }),
  ).not.toThrow();
});
