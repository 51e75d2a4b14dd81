// The random play of test/pipeline, for longer.

process.env.MILLRACE_FUZZ_RUNS ??= "400";
await import("../pipeline/schema/random-schema.test.ts");

export {};
