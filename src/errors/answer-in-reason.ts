// How a reason quotes what a receiver answered, so that somebody can mend it; and how a log removes that again, since it may hold values.

/** `. It said: “…”`, behind the status in a reason; nothing where it said nothing. */
export function saying(answer: string | null): string {
  return answer === null ? "" : `. It said: ${quoted(answer)}`;
}

/** The marks end the quotation, so they may not be in it. */
export function quoted(text: string): string {
  return `“${text.replaceAll(/[“”]/g, '"')}”`;
}

/**
 * Line ends and tabs become blanks. Control characters, formatting ones (which turn the writing direction, or are invisible), halves of
 * pairs, private and unassigned ones are left out.
 */
export function plainLine(text: string): string {
  return text.replaceAll(/\s+/gu, " ").replaceAll(/\p{C}/gu, "").trim();
}

/** At most so many characters; null: there is none. */
export function shortened(line: string, mostCharacters: number): string | null {
  const characters = [...line.trim()];
  if (characters.length === 0) return null;
  return characters.length > mostCharacters
    ? `${characters.slice(0, mostCharacters - 1).join("")}…`
    : characters.join("");
}

/** `reason` without what a receiver said. */
export function withoutAnswer(reason: string): string {
  return reason.replaceAll(/It said: “[^”]*”/g, "It said something (told by the status)");
}
