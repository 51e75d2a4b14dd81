// How much the kernel receives for a connection before somebody reads it. A walsender sends each message by itself. To a reader that is
// near, that is a packet for each of them, with an answer and an entry in the reader's queue: more work than to decode the change. Once
// the window is full, the sender's kernel gathers what comes behind it in large packets. The window that Linux opens by itself grows
// until it is never full; over a distance it has to, for what is on its way.
// https://man7.org/linux/man-pages/man7/socket.7.html (SO_RCVBUF), https://man7.org/linux/man-pages/man7/tcp.7.html (tcp_rmem, TCP_INFO)

import { dlopen, ptr } from "bun:ffi";

/** Below 32 kB its parts would not fit a packet of loopback's size; from 128 kB on it is hardly ever full. */
const smallBytes = 48 * 1024;
/** So near, a window of that size lets 240 MB/s through: more than a walsender decodes. */
const nearMicroseconds = 200;

/** Linux' numbers. */
const solSocket = 1;
const soRcvbuf = 8;
const ipprotoTcp = 6;
const tcpInfo = 11;
/** In its struct tcp_info, since 4.6: the shortest time from a packet to its answer, in microseconds. */
const minRttAt = 148;

/** The kinds of libc, by what their loader calls them. */
const libcNames = ["libc.so.6", "libc.musl-x86_64.so.1", "libc.musl-aarch64.so.1"];
const symbols = {
  setsockopt: { args: ["i32", "i32", "i32", "ptr", "u32"], returns: "i32" },
  getsockopt: { args: ["i32", "i32", "i32", "ptr", "ptr"], returns: "i32" },
} as const;

type Libc = ReturnType<typeof dlopen<typeof symbols>>["symbols"];

/** Undefined: not looked for yet. Null: there is none. */
let libc: Libc | null | undefined;

/** A connected socket, or a stream that stands in its place. */
export interface MaybeSocket {
  // library edge: what Node's sockets keep their descriptor in, and Bun's as well.
  readonly _handle?: { readonly fd?: number } | null;
}

/** For a connection that is to bring many small messages. It works without it: what cannot be done is left. */
export function keepReceiveBufferSmall({ _handle }: MaybeSocket): void {
  const fd = _handle?.fd;
  if (process.platform !== "linux" || fd === undefined || fd < 0) return;
  if (libc === undefined) libc = findLibc();
  if (libc === null || shortestRoundTrip(libc, fd) > nearMicroseconds) return;
  libc.setsockopt(fd, solSocket, soRcvbuf, ptr(new Int32Array([smallBytes])), 4);
}

/** In microseconds. Of what is no TCP connection, or has not told yet: the longest. */
function shortestRoundTrip({ getsockopt }: Libc, fd: number): number {
  const info = new Uint8Array(minRttAt + 4);
  const length = new Uint32Array([info.length]);
  const isTold = getsockopt(fd, ipprotoTcp, tcpInfo, ptr(info), ptr(length)) === 0;
  if (!isTold || length[0] !== info.length) return Number.POSITIVE_INFINITY;
  return new Uint32Array(info.buffer, minRttAt, 1)[0] ?? Number.POSITIVE_INFINITY;
}

function findLibc(): Libc | null {
  for (const name of libcNames) {
    try {
      return dlopen(name, symbols).symbols;
    } catch {
      // The next one.
    }
  }
  return null;
}
