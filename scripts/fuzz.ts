// `bun run fuzz` runs random cases until one fails or the time is up; `--minutes 30` sets the time. A failure prints
// its seed and path. To repeat it, set MILLRACE_FUZZ_SEED and MILLRACE_FUZZ_PATH and run `bun test <file>`.

import { parseArgs } from "node:util";

const { values } = parseArgs({ options: { minutes: { type: "string", default: "60" } } });
const minutes = Number(values.minutes);
const endsAt = performance.now() + minutes * 60_000;
const files = ["test/pipeline/schema/random-schema.test.ts", "test/pipeline/random-load.test.ts"];

for (let round = 1; performance.now() < endsAt; round++) {
  const file = files[round % files.length] ?? "";
  const left = Math.round((endsAt - performance.now()) / 60_000);
  console.log(`\nround ${round}, ${left} minutes left: ${file}`);
  const strategies: Readonly<Record<string, string>> =
    round % 4 === 0 ? { MILLRACE_FUZZ_PARTLY: "1" } : { MILLRACE_FUZZ_WIDE: "all" };
  const run = Bun.spawn(["bun", "test", "--timeout", "60000", file], {
    stdio: ["inherit", "inherit", "inherit"],
    env: { ...process.env, MILLRACE_FUZZ_RUNS: "100", MILLRACE_FUZZ_MINUTES: "60", ...strategies },
  });
  const code = await run.exited;
  if (code !== 0) process.exit(code);
}
