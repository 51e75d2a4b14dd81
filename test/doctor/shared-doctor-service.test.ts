// Whoever asks while an examination is under way gets what that finds: each one asks sources and sinks.

import { expect, test } from "bun:test";
import type { Diagnosis } from "../../src/connector/service/diagnosis.ts";
import { SharedDoctorService } from "../../src/doctor/shared-doctor-service.ts";

const found: Diagnosis[] = [
  { connector: null, about: "state", severity: "ok", finding: "All is well.", commands: [] },
];

/** Examinations that wait until they are answered. */
function stage() {
  const asked: { readonly id: string | null; readonly signal: AbortSignal; answer(): void }[] = [];
  const doctor = new SharedDoctorService({
    examine: (id, signal) =>
      new Promise((resolve) => asked.push({ id, signal, answer: () => resolve(found) })),
  });
  return { asked, doctor };
}

test("two that ask at once share one examination; another connector, and a later time, have their own", async () => {
  const { asked, doctor } = stage();
  const examine = (id: string | null) => doctor.examine(id, new AbortController().signal);
  const both = [examine(null), examine(null)];
  const other = examine("shop");
  expect(asked.map(({ id }) => id)).toEqual([null, "shop"]);
  for (const { answer } of asked) answer();
  expect(await Promise.all([...both, other])).toEqual([found, found, found]);
  const later = examine(null);
  expect(asked).toHaveLength(3);
  asked[2]?.answer();
  expect(await later).toEqual(found);
});

test("an examination ends when nobody waits for it any more, and the next caller gets another", async () => {
  const { asked, doctor } = stage();
  const [one, other] = [new AbortController(), new AbortController()];
  for (const { signal } of [one, other]) doctor.examine(null, signal).catch(() => {});
  one.abort();
  expect(asked[0]?.signal.aborted).toBe(false);
  other.abort();
  expect(asked[0]?.signal.aborted).toBe(true);
  const next = doctor.examine(null, new AbortController().signal);
  expect(asked).toHaveLength(2);
  // What nobody waits for answers late.
  asked[0]?.answer();
  await Bun.sleep(0);
  const shares = doctor.examine(null, new AbortController().signal);
  expect(asked).toHaveLength(2);
  asked[1]?.answer();
  expect(await Promise.all([next, shares])).toEqual([found, found]);
  await expect(doctor.examine(null, one.signal)).rejects.toThrow();
  expect(asked).toHaveLength(2);
});
