// A process that opens the state of a data directory, says so, and keeps it until it is killed.

import { openState } from "../../src/state/open-state.ts";

const [dataDirectory = ""] = process.argv.slice(2);
const state = await openState({ databaseUrl: null, dataDirectory, encryptionKey: null });
await state.ping();
console.log("open");
setInterval(() => {}, 60_000);
