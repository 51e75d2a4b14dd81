// A separate process that discards every webhook except the marker table's. It prints its port on the first line. GET
// returns the last marker; GET /received returns what has arrived since the previous call. The argument is the delay of
// its responses in ms.

import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from "node:zlib";

const delayMs = Number(process.argv[2] ?? 0);

interface Row {
  readonly at: string;
}

let marker = "";
let requests = 0;
let wireBytes = 0;
let latenciesMs: number[] = [];

function report(): Response {
  const received = { requests, wireBytes, latenciesMs };
  requests = 0;
  wireBytes = 0;
  latenciesMs = [];
  return Response.json(received);
}

function decoded(body: Buffer, encoding: string | null): string {
  const decoders: Readonly<Record<string, (bytes: Buffer) => Buffer>> = {
    ...{ gzip: gunzipSync, zstd: zstdDecompressSync, br: brotliDecompressSync },
  };
  return (decoders[encoding ?? ""]?.(body) ?? body).toString();
}

function record({ headers }: Request, body: ArrayBuffer): void {
  const table = headers.get("x-source-table");
  requests++;
  wireBytes += body.byteLength;
  if (table === "bench_marker") marker = decoded(Buffer.from(body), headers.get("content-encoding"));
  if (table !== "bench_latency") return;
  const now = Date.now();
  const rows = JSON.parse(Buffer.from(body).toString()) as Row | readonly Row[];
  for (const { at } of [rows].flat()) latenciesMs.push(now - Date.parse(at));
}

const server = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  maxRequestBodySize: 1024 * 1024 * 1024,
  async fetch(request) {
    if (request.method === "GET") return request.url.endsWith("/received") ? report() : new Response(marker);
    record(request, await request.arrayBuffer());
    if (delayMs > 0) await Bun.sleep(delayMs);
    return new Response(null, { status: 204 });
  },
});

console.log(server.port);
