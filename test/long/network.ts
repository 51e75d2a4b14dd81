// Connections break, stall and are refused, and the server crashes: the runs go on by themselves, and nothing is lost.

import { test } from "bun:test";
import { connectorIds, DemoStage } from "../../src/demo/demo-stage.ts";
import { loadInBackground } from "../support/loads/load-in-background.ts";
import { expectEqualSinks } from "../support/oracles/equal-sinks.ts";
import { compiledBinary } from "../support/program/compiled-binary.ts";
import { untilStreaming } from "../support/program/until-streaming.ts";
import { TcpProxy } from "../support/servers/tcp-proxy.ts";
import { waitFor } from "../support/wait-for.ts";

async function setUp(): Promise<DemoStage> {
  const command = [await compiledBinary()];
  const signal = AbortSignal.timeout(60_000);
  return await DemoStage.setUp({ scale: 0.1, signal, announce: () => {}, command });
}

/** Some milliseconds between the two, at random. */
const sometime = (fromMs: number, toMs: number) => Bun.sleep(fromMs + Math.random() * (toMs - fromMs));

test("cut, stalled and refused connections to source and sink", async () => {
  await using stage = await setUp();
  await using source = await TcpProxy.start(stage.server.port);
  await using sink = await TcpProxy.start(stage.server.port);
  await stage.createConnectors({ source: source.port, sink: sink.port });
  {
    await using _load = await loadInBackground(stage, 10);
    await sometime(0, 300);
    source.cut();
    await untilStreaming(stage);
    for (const proxy of [source, sink, source, sink]) {
      await sometime(100, 800);
      proxy.cut();
      await sometime(100, 800);
      proxy.stall();
      await sometime(500, 1_500);
      proxy.resume();
    }
    for (const proxy of [source, sink]) {
      proxy.refuse(true);
      proxy.cut();
      await waitFor("a connector tries again", async () => {
        const all = await Promise.all(connectorIds.map((id) => stage.api.connector(id)));
        return all.some(({ status }) => status.status.retry !== undefined);
      });
      proxy.refuse(false);
    }
    await untilStreaming(stage);
  }
  await expectEqualSinks(stage);
}, 180_000);

test("a crash of the server and its recovery", async () => {
  await using stage = await setUp();
  await stage.createConnectors();
  await untilStreaming(stage);
  for (let crash = 1; crash <= 2; crash += 1) {
    {
      await using load = await loadInBackground(stage, 10);
      await waitFor("changes travel", () => load.transactions > 30);
    }
    await stage.server.stop("immediate");
    await stage.server.launch();
  }
  await expectEqualSinks(stage);
  // They may have been equal before the last crash.
  await untilStreaming(stage);
}, 180_000);
