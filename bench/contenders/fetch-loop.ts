// A separate process that posts one-row bodies to a URL as fast as it can, with a fixed number in flight, and prints
// the requests per second. This is the upper bound for any sender of single rows on this machine.

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
