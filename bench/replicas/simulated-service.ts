// The service as a process, with simulated runs: `serve --port … --data-dir …`, as ServiceProcess starts it.

import { parseArgs } from "node:util";
import { readSettings } from "../../src/config.ts";
import { createLog } from "../../src/log.ts";
import { serveUntilStopped } from "../../src/serve-until-stopped.ts";
import { SimulatedRun } from "./simulated-run.ts";

const { values } = parseArgs({
  options: { port: { type: "string" }, "data-dir": { type: "string" } },
  allowPositionals: true,
});
const { port, "data-dir": dataDir } = values;
const settings = readSettings(
  { ...(port === undefined ? {} : { port }), ...(dataDir === undefined ? {} : { dataDir }) },
  process.env,
);
const log = createLog({
  level: settings.logLevel,
  readable: false,
  write: (line) => process.stdout.write(line),
});
process.exit(
  await serveUntilStopped(settings, log, "simulated", (request, events) => new SimulatedRun(request, events)),
);
