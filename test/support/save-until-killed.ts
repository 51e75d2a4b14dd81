// A process that saves a rising number as a sink's record and as a part of it, and prints each one when it is durable, until it is killed.

import { slotName } from "../../src/connector/connector-id.ts";
import { openState } from "../../src/state/open-state.ts";
import { noRound } from "../../src/state/stores/connector-store.ts";
import { sampleConfig } from "./sample-connector.ts";

const dataDirectory = process.argv[2] ?? "";
const state = await openState({ databaseUrl: null, dataDirectory, encryptionKey: null });
await state.connectors.insert({
  ...{ id: "killed", config: sampleConfig("killed"), slotName: slotName("killed") },
  ...{ stopped: false, deletion: null, cleanup: null, initialized: false, ...noRound },
  ...{ runId: Bun.randomUUIDv7(), createdAt: new Date() },
});
for (let number = 1; number < 100_000; number++) {
  await state.sinkRecords.save("killed", String(number), new Map([["part", String(number)]]));
  process.stdout.write(`${number}\n`);
}
