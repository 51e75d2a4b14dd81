// A separate process that discards every webhook except the marker table's. It prints its port on the first line. GET
// returns the last marker; GET /received returns what has arrived since the previous call. The arguments are the delay of
// its responses in ms, and a text: bodies that contain it are refused.

import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from "node:zlib";

const delayMs = Number(process.argv[2] ?? 0);
const refusedText = process.argv[3] ?? "";

interface Row {
  readonly at: string;
}

let marker = "";
let requests = 0;
let refused = 0;
let wireBytes = 0;
let latenciesMs: number[] = [];

function report(): Response {
  const received = { requests, refused, wireBytes, latenciesMs };
  requests = 0;
  refused = 0;
  wireBytes = 0;
  latenciesMs = [];
  return Response.json(received);
}

function decoded(body: Buffer, encoding: string | null): string {
  const decoders: Readonly<Record<string, (bytes: Buffer) => Buffer>> = {
    gzip: gunzipSync,
    zstd: zstdDecompressSync,
    br: brotliDecompressSync,
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
    const body = await request.arrayBuffer();
    record(request, body);
    if (delayMs > 0) await Bun.sleep(delayMs);
    if (refusedText !== "" && Buffer.from(body).includes(refusedText)) {
      refused++;
      return new Response("this row is refused", { status: 422 });
    }
    return new Response(null, { status: 204 });
  },
});

console.log(server.port);
