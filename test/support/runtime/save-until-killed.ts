// A process that saves a rising number as a sink's record and as a part of it, and prints each one when it is durable, until it is killed.

import { openState } from "../../../src/state/open-state.ts";
import { storedConnector } from "../api/sample-connector.ts";

const dataDirectory = process.argv[2] ?? "";
const state = await openState({
  databaseUrl: null,
  dataDirectory,
  encryptionKey: null,
  instance: crypto.randomUUID(),
});
await state.connectors.insert(storedConnector("killed"));
for (let number = 1; number < 100_000; number++) {
  await state.sinkRecords.save("killed", String(number), new Map([["part", String(number)]]), null);
  process.stdout.write(`${number}\n`);
}
