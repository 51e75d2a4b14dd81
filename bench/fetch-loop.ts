// A process of its own: posts bodies of one row to an address, so many at once, as fast as it can, and says how many came a second. What
// a sender of single rows can reach on this machine, whatever it sends.

const [url = "", inFlight = "32", count = "1", body = "{}"] = process.argv.slice(2);

let left = Number(count);

async function send(): Promise<void> {
  while (left-- > 0) {
    const headers = { "Content-Type": "application/json", "Idempotency-Key": crypto.randomUUID() };
    const response = await fetch(url, { method: "POST", headers, body });
    await response.arrayBuffer();
  }
}

const startedMs = performance.now();
await Promise.all(Array.from({ length: Number(inFlight) }, send));
console.log((Number(count) * 1000) / (performance.now() - startedMs));

export {};
