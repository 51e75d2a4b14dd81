// Looks at one broker as far as anybody may who knows no password: its name, its port, its TLS, and whether what answers is Kafka.

import { lookup } from "node:dns/promises";
import { connect as connectTcp, isIP, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { bounded } from "../../../connection/bounded.ts";
import { type Address, addressOf } from "../client/broker-address.ts";
import type { Tls } from "../client/kafka-connection.ts";

/** How far the way to a broker leads. `code`: the system's word for what ended it. */
export type Probe =
  | { readonly end: "unresolved"; readonly code: string }
  | { readonly end: "unreached"; readonly code: string }
  | { readonly end: "handshake"; readonly code: string; readonly speaksPlain: boolean }
  /** The connection stood, and the first request was not answered as Kafka does. */
  | { readonly end: "unanswered"; readonly code: string; readonly speaksTls: boolean }
  | { readonly end: "answered" };

/** In the place of a code. */
export const notInTime = "no answer in time";

/** A broker whose port was reached. */
interface Reached extends Address {
  readonly end: "reached";
  /** Which the name stands for. */
  readonly address: string;
}

/** `tls` null: without. It resolves whatever it finds; when `limit` fires, with what was not done in time. */
export async function probeBroker(broker: string, tls: Tls | null, limit: AbortSignal): Promise<Probe> {
  const found = await reachBroker(broker, limit);
  if (found.end !== "reached") return found;
  try {
    return await probeAnswer(found, tls, limit);
  } catch (error) {
    return { end: "unreached", code: codeOf(error, limit) };
  }
}

/** Looks no further than the port. */
export async function reachBroker(
  broker: string,
  limit: AbortSignal,
): Promise<Reached | Extract<Probe, { end: "unresolved" | "unreached" }>> {
  const { host, port } = addressOf(broker);
  let addresses: readonly string[];
  try {
    addresses = isIP(host)
      ? [host]
      : (await bounded(limit, () => lookup(host, { all: true }))).map(({ address }) => address);
  } catch (error) {
    return { end: "unresolved", code: codeOf(error, limit) };
  }
  let code = "no address";
  for (const address of addresses) {
    try {
      (await opened(limit, "connect", () => connectTcp(port, address))).destroy();
      return { end: "reached", host, port, address };
    } catch (error) {
      code = codeOf(error, limit);
    }
  }
  return { end: "unreached", code };
}

async function probeAnswer(
  { address, port, host }: Reached,
  tls: Tls | null,
  limit: AbortSignal,
): Promise<Probe> {
  const plain = () => opened(limit, "connect", () => connectTcp(port, address));
  const secure = (options: object) =>
    opened(limit, "secureConnect", () =>
      connectTls({ host: address, port, ...(isIP(host) ? {} : { servername: host }), ...options }),
    );
  if (!tls) {
    const code = await greeting(await plain(), limit);
    if (code === null) return { end: "answered" };
    return { end: "unanswered", code, speaksTls: await opens(secure({ rejectUnauthorized: false })) };
  }
  let socket: Socket;
  try {
    socket = await secure(tls);
  } catch (error) {
    const speaksPlain = await plain()
      .then((opened) => greeting(opened, limit))
      .catch(() => "");
    return { end: "handshake", code: codeOf(error, limit), speaksPlain: speaksPlain === null };
  }
  const code = await greeting(socket, limit);
  return code === null ? { end: "answered" } : { end: "unanswered", code, speaksTls: true };
}

const correlation = 0x6d696c6c;
/** ApiVersions in its first version, which every broker answers, whoever asks. */
const apiVersions = Buffer.from("0000000a001200006d696c6cffff", "hex");

/** Null: the other end answered as Kafka does. Closes the socket. */
async function greeting(socket: Socket, limit: AbortSignal): Promise<string | null> {
  const answered = Promise.withResolvers<string | null>();
  let received = Buffer.alloc(0);
  socket.on("data", (bytes: Buffer) => {
    received = Buffer.concat([received, bytes]);
    if (received.length >= 8)
      answered.resolve(received.readInt32BE(4) === correlation ? null : "another answer");
  });
  socket.on("error", (error) => answered.resolve(codeOf(error, limit)));
  socket.on("close", () => answered.resolve("closed"));
  try {
    socket.write(apiVersions);
    return await bounded(limit, () => answered.promise);
  } catch (error) {
    return codeOf(error, limit);
  } finally {
    socket.destroy();
  }
}

async function opens(opening: Promise<Socket>): Promise<boolean> {
  try {
    (await opening).destroy();
    return true;
  } catch {
    return false;
  }
}

/** Throws what keeps the socket from opening in time. */
async function opened(limit: AbortSignal, event: string, open: () => Socket): Promise<Socket> {
  const socket = open();
  socket.on("error", () => undefined);
  try {
    await bounded(limit, () => {
      return new Promise<void>((resolve, reject) => {
        socket.once(event, () => resolve());
        socket.once("error", reject);
        socket.once("close", () => reject(Object.assign(new Error("closed"), { code: "closed" })));
      });
    });
    return socket;
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

function codeOf(error: unknown, limit: AbortSignal): string {
  if (limit.aborted) return notInTime;
  return error instanceof Error && "code" in error && typeof error.code === "string"
    ? error.code
    : String(error);
}
