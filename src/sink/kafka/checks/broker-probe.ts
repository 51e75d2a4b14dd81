// Looks at one broker as far as anybody may who knows no password: its name, its port, its TLS, and whether what answers is Kafka.

import { connect as connectTcp, isIP, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { bounded } from "../../../concurrency/until-aborted.ts";
import type { AddressResolver } from "../../../connection/egress.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { type Address, addressOf } from "../client/broker-address.ts";
import type { Tls } from "../client/kafka-connection.ts";

/** How far a connection to a broker gets. `code`: the system's word for what ended it; of an address that is refused, the reason. */
export type Probe =
  | Unreached
  | { readonly end: "handshake"; readonly code: string; readonly speaksPlain: boolean }
  /** The connection stood, and the first request was not answered as Kafka does. */
  | { readonly end: "unanswered"; readonly code: string; readonly speaksTls: boolean }
  | { readonly end: "answered" };

export interface Unreached {
  readonly end: "unresolved" | "refused" | "unreached";
  readonly code: string;
}

/** In the place of a code. */
export const notInTime = "no answer in time";

/** A broker whose port was reached, at `address`. */
interface Reached extends Address {
  readonly end: "reached";
  readonly address: string;
}

/** `tls` null: without. It resolves whatever it finds; when `limit` fires, with what was not done in time. */
export async function probeBroker(
  broker: string,
  tls: Tls | null,
  resolver: AddressResolver,
  limit: AbortSignal,
): Promise<Probe> {
  const found = await reachBroker(broker, resolver, limit);
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
  resolver: AddressResolver,
  limit: AbortSignal,
): Promise<Reached | Unreached> {
  const { host, port } = addressOf(broker);
  let end: "unresolved" | "unreached" = "unresolved";
  let failure: unknown = null;
  try {
    const addresses = await bounded(limit, () => resolver.addresses(host));
    end = "unreached";
    for (const address of addresses) {
      try {
        (await opened(limit, "connect", () => connectTcp(port, address))).destroy();
        return { end: "reached", host, port, address };
      } catch (error) {
        failure = error;
      }
    }
  } catch (error) {
    if (error instanceof MillraceError) return { end: "refused", code: error.message };
    failure = error;
  }
  return { end, code: codeOf(failure, limit) };
}

async function probeAnswer(
  { address, port, host }: Reached,
  tls: Tls | null,
  limit: AbortSignal,
): Promise<Probe> {
  const plain = () => opened(limit, "connect", () => connectTcp(port, address));
  const name = isIP(host) ? {} : { servername: host };
  const secure = (options: object) =>
    opened(limit, "secureConnect", () => connectTls({ host: address, port, ...name, ...options }));
  if (!tls) {
    const code = await greeting(await plain(), limit);
    if (code === null) return { end: "answered" };
    const isOpen = (socket: Socket) => !socket.destroy().connecting;
    return {
      end: "unanswered",
      code,
      speaksTls: await secure({ rejectUnauthorized: false }).then(isOpen, no),
    };
  }
  try {
    const code = await greeting(await secure(tls), limit);
    return code === null ? { end: "answered" } : { end: "unanswered", code, speaksTls: true };
  } catch (error) {
    const isKafka = async (socket: Socket) => (await greeting(socket, limit)) === null;
    return {
      end: "handshake",
      code: codeOf(error, limit),
      speaksPlain: await plain().then(isKafka).catch(no),
    };
  }
}

const no = () => false;
const correlation = 0x6d696c6c;
/** ApiVersions in its first version, which every broker answers, whoever asks. */
const apiVersions = Buffer.from("0000000a001200006d696c6cffff", "hex");

/** Null: the other end answered as Kafka does. Never throws, and closes the socket. */
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

/** Throws what keeps the socket from opening in time. */
async function opened(limit: AbortSignal, event: string, open: () => Socket): Promise<Socket> {
  const socket = open();
  const ready = Promise.withResolvers<Socket>();
  ready.promise.catch(() => undefined);
  socket.once(event, () => ready.resolve(socket));
  socket.on("error", ready.reject);
  socket.once("close", () => ready.reject(Object.assign(new Error("closed"), { code: "closed" })));
  try {
    return await bounded(limit, () => ready.promise);
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
