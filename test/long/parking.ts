// The long form of test/e2e/parking.test.ts: a hundred kills.

process.env.MILLRACE_PARKING_KILLS ??= "100";
await import("../e2e/parking.test.ts");

export {};
