// What a response's status means for the request. Pure.

export type ResponseVerdict = "delivered" | "retry" | "rejected";

/**
 * 2xx: delivered. 408, 425, 429, 500 and above: tried again. Every other status, redirects among them, is
 * permanent.
 */
export function responseVerdict(status: number): ResponseVerdict {
  if (status >= 200 && status < 300) return "delivered";
  if (status === 408 || status === 425 || status === 429 || status >= 500) return "retry";
  return "rejected";
}

/**
 * Milliseconds that a `Retry-After` asks for: seconds, or an HTTP date (RFC 9110, section 10.2.3). 0 for
 * none and for what cannot be read.
 */
export function retryAfterMs(header: string | null, nowMs: number): number {
  if (header === null) return 0;
  const text = header.trim();
  if (/^\d{1,10}$/.test(text)) return Number(text) * 1000;
  if (!/[A-Za-z]/.test(text)) return 0;
  const at = Date.parse(text);
  return Number.isNaN(at) ? 0 : Math.max(0, at - nowMs);
}

/**
 * The statuses of HTTP, from the first to the last of each row of them; 509 is in no standard, and in use. Node.js has a list as well, and
 * loads its server for it.
 * https://www.iana.org/assignments/http-status-codes/http-status-codes.xhtml
 */
const statusRows = [
  [100, 103],
  [200, 208],
  [226, 226],
  [300, 305],
  [307, 308],
  [400, 418],
  [421, 426],
  [428, 429],
  [431, 431],
  [451, 451],
  [500, 511],
] as const;

/** The name to count a status by. Made-up statuses count by their class, so that there is a bounded number of names. */
export function statusName(status: number): string {
  const isKnown = statusRows.some(([first, last]) => status >= first && status <= last);
  return isKnown ? String(status) : `${Math.floor(status / 100)}xx`;
}
