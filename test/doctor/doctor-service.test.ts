// What the doctor does about sides that do not answer.

import { expect, test } from "bun:test";
import type { ConnectorStatus } from "../../src/connector/status.ts";
import { LiveDoctorService } from "../../src/doctor/doctor-service.ts";
import { sampleConfig } from "../support/api/sample-connector.ts";

test("sources that never answer leave no connector out, and the doctor ends in time", async () => {
  const ids = ["a", "b", "c", "d", "e", "f"];
  const stopped: ConnectorStatus = { state: { shutdown: {} }, status: { complete: {} } };
  const examined = { initialized: false, parked: undefined, status: stopped };
  const doctor = new LiveDoctorService(
    {
      connectors: async () => ids.map((id) => ({ ...examined, config: sampleConfig(id) })),
      stateTrouble: async () => null,
      threadTrouble: () => null,
      installation: () => null,
      now: () => new Date(),
      examineDisk: async () => ({ about: "disk", severity: "ok", finding: "Enough.", commands: [] }),
      examineSource: async () => [],
      validateSource: (_, signal) => new Promise((_, reject) => signal.addEventListener("abort", reject)),
      validateSink: async () => [],
    },
    50,
  );
  const found = await doctor.examine(null, new AbortController().signal);
  const late = found.filter(({ finding }) =>
    finding.startsWith("There was no time left to examine the source"),
  );
  expect(late.map(({ connector, commands }) => [connector, commands])).toEqual(
    ids.map((id) => [id, [`millrace doctor ${id}`]]),
  );
});
