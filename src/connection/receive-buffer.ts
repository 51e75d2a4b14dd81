// How much the kernel receives for a connection before somebody reads it. A walsender sends each message by itself. Over loopback that is
// a packet for each of them, with an answer and an entry in the receiver's queue: more work than to decode the change. Once the receiver's
// window is full, the kernel gathers what is sent behind it in packets of 64 kB instead. The window that Linux opens by itself grows until
// it is never full. Between machines it is needed, for what is on its way.
// https://man7.org/linux/man-pages/man7/socket.7.html (SO_RCVBUF), https://man7.org/linux/man-pages/man7/tcp.7.html (tcp_rmem)

import { dlopen, ptr } from "bun:ffi";
import ipaddr from "ipaddr.js";

/** Below 32 kB its parts would not fit a packet of loopback's size; from 128 kB on it is hardly ever full. */
const smallBytes = 48 * 1024;

/** Linux' numbers. */
const solSocket = 1;
const soRcvbuf = 8;

/** The kinds of libc, by what their loader calls them. */
const libcNames = ["libc.so.6", "libc.musl-x86_64.so.1", "libc.musl-aarch64.so.1"];

const setsockoptType = { args: ["i32", "i32", "i32", "ptr", "u32"], returns: "i32" } as const;

type SetSockOpt = (
  fd: number,
  level: number,
  name: number,
  value: ReturnType<typeof ptr>,
  length: number,
) => number;

/** Null: not tried yet. */
let setsockopt: SetSockOpt | null = null;

/** A connected socket, or a stream that stands in its place. */
export interface MaybeSocket {
  readonly localAddress?: string | undefined;
  readonly remoteAddress?: string | undefined;
  // library edge: what Node's sockets keep their descriptor in, and Bun's as well.
  readonly _handle?: { readonly fd?: number } | null;
}

/** For a connection within this machine that is to bring many small messages. It works without it: what cannot be done is left. */
export function keepReceiveBufferSmall(socket: MaybeSocket): void {
  const fd = socket._handle?.fd;
  if (process.platform !== "linux" || fd === undefined || fd < 0 || !isWithinMachine(socket)) return;
  setsockopt ??= findSetSockOpt();
  const value = new Int32Array([smallBytes]);
  setsockopt(fd, solSocket, soRcvbuf, ptr(value), value.byteLength);
}

/** What a machine sends to any address of its own takes the way of loopback. */
function isWithinMachine({ localAddress, remoteAddress }: MaybeSocket): boolean {
  if (remoteAddress === undefined || !ipaddr.isValid(remoteAddress)) return false;
  return remoteAddress === localAddress || ipaddr.process(remoteAddress).range() === "loopback";
}

function findSetSockOpt(): SetSockOpt {
  for (const name of libcNames) {
    try {
      return dlopen(name, { setsockopt: setsockoptType }).symbols.setsockopt;
    } catch {
      // The next one.
    }
  }
  return () => -1;
}
