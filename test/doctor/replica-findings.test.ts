// What the doctor says about replicas.

import { expect, test } from "bun:test";
import { LiveDoctorService } from "../../src/doctor/doctor-service.ts";
import { type ExaminedReplica, holderFindings, replicaFindings } from "../../src/doctor/replica-findings.ts";

const now = new Date(100_000);
const replica = (id: string, change: Partial<ExaminedReplica> = {}): ExaminedReplica => ({
  id,
  host: `host-${id}`,
  version: "1.2.0",
  weight: 1,
  isAlive: true,
  seenAt: now,
  trouble: null,
  ...change,
});
const found = (...replicas: ExaminedReplica[]) => replicaFindings({ replicas, free: [] }, now);

test("replicas that live, of one version, are fine", () => {
  expect(found(replica("a"))).toMatchObject([{ about: "replicas", severity: "ok" }]);
  expect(found(replica("a"), replica("b"))).toMatchObject([
    { severity: "ok", finding: "All 2 replicas live, and are of version 1.2.0." },
  ]);
});

test("one that has died is told, with its host and for how long", () => {
  const [finding, ...more] = found(
    replica("a"),
    replica("b", { isAlive: false, seenAt: new Date(60_000), version: "0.9.0", trouble: "old" }),
  );
  expect(finding).toMatchObject({ severity: "warning" });
  expect(finding?.finding).toStartWith("Replica b on host-b has given no sign of life for 40 s.");
  expect(more).toEqual([]);
});

test("versions that differ are told, each with its replicas", () => {
  const findings = found(replica("a"), replica("b", { version: "1.3.0" }), replica("c"));
  expect(findings).toMatchObject([{ severity: "warning" }]);
  expect(findings[0]?.finding).toContain("1.2.0 (a, c); 1.3.0 (b)");
});

test("what a replica says of itself is told, and that none runs connectors", () => {
  expect(found(replica("a", { trouble: "Its clock stands still." }))).toMatchObject([
    { severity: "warning", finding: "Replica a says of itself: Its clock stands still." },
  ]);
  expect(found(replica("a", { weight: 0 }), replica("b", { weight: 0 }))).toMatchObject([
    { severity: "failed" },
  ]);
  expect(found(replica("a", { weight: 0 }), replica("b"))).toMatchObject([{ severity: "ok" }]);
});

test("a connector that is to run, and that nobody has held for longer than a take-over takes, is told", () => {
  const free = [
    { connectorId: "alone", active: true, freeMs: 20_400 },
    { connectorId: "moving", active: true, freeMs: 400 },
    { connectorId: "stopped", active: false, freeMs: 900_000 },
  ];
  const of = (id: string) => holderFindings(id, { replicas: [replica("a")], free });
  expect(of("alone")).toMatchObject([{ about: "replicas", severity: "failed" }]);
  expect(of("alone")[0]?.finding).toStartWith("No replica has run it for 20 s");
  for (const id of ["moving", "stopped", "held"]) expect(of(id)).toEqual([]);
});

test("the doctor tells of replicas where there may be several, and of none where the state is embedded", async () => {
  const doctor = (isShared: boolean) =>
    new LiveDoctorService({
      connectors: async () => [],
      stateTrouble: async () => null,
      threadTrouble: () => null,
      installation: () => (isShared ? { replicas: [replica("a", { isAlive: false })], free: [] } : null),
      now: () => now,
      examineDisk: async () => ({ about: "disk", severity: "ok", finding: "Enough.", commands: [] }),
      examineSource: async () => [],
      validateSource: async () => [],
      validateSink: async () => [],
    });
  const about = async (isShared: boolean) =>
    (await doctor(isShared).examine(null, new AbortController().signal)).map((one) => one.about);
  expect(await about(false)).toEqual(["state", "disk", "threads"]);
  expect(await about(true)).toEqual(["state", "disk", "threads", "replicas"]);
});
