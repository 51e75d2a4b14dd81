// How a reason quotes what a receiver answered, so that somebody can mend it; and how a log removes that again, since it may hold values.

/** `. It said: “…”`, behind the status in a reason; nothing where it said nothing. */
export function saying(answer: string | null): string {
  if (answer === null) return "";
  // The marks end the quotation, so they may not be in it.
  return `. It said: “${answer.replaceAll(/[“”]/g, '"')}”`;
}

/** `reason` without what a receiver said. */
export function withoutAnswer(reason: string): string {
  return reason.replaceAll(/It said: “[^”]*”/g, "It said something (told by the status)");
}
