// A process of its own: takes every webhook and throws it away, but for the marker's table. Says its port on the first
// line; GET answers with the last marker.

let marker = "";

const server = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  maxRequestBodySize: 1024 * 1024 * 1024,
  async fetch(request) {
    if (request.method === "GET") return new Response(marker);
    const body = await request.arrayBuffer();
    if (request.headers.get("x-source-table") === "bench_marker") marker = Buffer.from(body).toString();
    return new Response(null, { status: 204 });
  },
});

console.log(server.port);
