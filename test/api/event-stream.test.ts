// The stream of events over the wire, with more in it than a connection's buffers take: what a client that does not read costs, and
// what it gets when it reads again.

import { afterAll, expect, test } from "bun:test";
import { connect } from "node:net";
import { createApp } from "../../src/app.ts";
import type { ServiceEvent } from "../../src/connector/service/service-event.ts";
import { EventHub } from "../../src/runtime/events/event-hub.ts";
import { waitFor } from "../support/wait-for.ts";
import { noAuthentication } from "./api-client.ts";
import { memoryServices } from "./memory-services.ts";

const hub = new EventHub("boot");
const faults: unknown[] = [];
const app = createApp({
  services: { ...memoryServices(), events: hub },
  authentication: noAuthentication,
  acceptsHost: null,
  version: "0.0.0-test",
  reportFault: (fault) => `fault-${faults.push(fault)}`,
});
app.listen({ port: 0, hostname: "127.0.0.1" });
const { port } = app.server!;
afterAll(async () => {
  await app.stop(true);
  expect(faults).toEqual([]);
});

const padding = "x".repeat(100_000);

function status(n: number): ServiceEvent {
  const reason = `change ${n} ${padding}`;
  const status = { state: { complete: {} }, status: { failed: { reason } } };
  return { event: "status", data: { connector_id: "orders", run_id: "run", status } };
}

test("2,000 large changes while a client does not read: bounded, and then the last one", async () => {
  const socket = connect(port!, "127.0.0.1");
  let text = "";
  socket.pause();
  socket.write("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  await waitFor("the silent client", () => hub.clientCount === 1);
  Bun.gc(true);
  const before = process.memoryUsage.rss();
  for (let n = 1; n <= 2_000; n++) {
    hub.publish(status(n), "status orders");
    await new Promise(setImmediate);
  }
  Bun.gc(true);
  // 200 MB were told. What the system holds for the connection is not in this number.
  expect(process.memoryUsage.rss() - before).toBeLessThan(50_000_000);
  socket.on("data", (chunk) => {
    text += chunk.toString("latin1");
  });
  socket.resume();
  await waitFor("the last one", () => text.includes("change 2000 "));
  const got = [...text.matchAll(/change (\d+) /g)].map(([, n]) => Number(n));
  expect(got).toEqual(got.toSorted((a, b) => a - b));
  expect(got.length).toBeLessThan(1_000);
  socket.destroy();
  await waitFor("its end", () => hub.clientCount === 0);
}, 60_000);

test("a client that lets different events wait is told to read everything again", async () => {
  const socket = connect(port!, "127.0.0.1");
  let text = "";
  socket.pause();
  socket.write("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  await waitFor("the client", () => hub.clientCount > 0);
  for (let n = 1; n <= 500; n++) {
    hub.publish(status(n), `status c${n}`);
    await new Promise(setImmediate);
  }
  hub.publish({ event: "connector", data: { connector_id: "last", change: "created" } }, null);
  socket.on("data", (chunk) => {
    text += chunk.toString("latin1");
  });
  socket.resume();
  await waitFor("the last event", () => text.includes('"last"'));
  expect(text).toMatch(/event: reset\ndata: \{\}\n/);
  expect(text.lastIndexOf("event: reset")).toBeLessThan(text.lastIndexOf("event: connector"));
  socket.destroy();
  await waitFor("its end", () => hub.clientCount === 0);
}, 60_000);
