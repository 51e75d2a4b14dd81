// Replies to what a worker asks of the main thread, and errors on their way between the two.

import { MillraceError, toMillraceError } from "../../errors/millrace-error.ts";
import type { Reply, ReplyValue, WireError } from "../threads/messages.ts";

/** Replies with the result, or with its error. */
export function answer(
  { requestId }: { readonly requestId: number },
  result: Promise<ReplyValue>,
  reply: (answer: Reply) => void,
): void {
  result.then(
    (value) => reply({ type: "reply", requestId, value }),
    (error: unknown) => reply({ type: "reply", requestId, error: toWire(error) }),
  );
}

export async function nothing(done: Promise<void>): Promise<null> {
  await done;
  return null;
}

export async function claimed(isOurs: Promise<boolean>): Promise<string> {
  return (await isOurs) ? "claimed" : "gone";
}

function toWire(error: unknown): WireError {
  const { code, message } = toMillraceError(error);
  return { code, message };
}

export function fromWire({ code, message, stack, table, commands = [] }: WireError): MillraceError {
  if (stack === undefined) return new MillraceError(code, message, { commands, ...(table && { table }) });
  return new MillraceError(code, message, { cause: Object.assign(new Error(message), { stack }) });
}
