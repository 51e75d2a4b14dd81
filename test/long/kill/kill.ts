// Deaths at random moments, more of them.

process.env.MILLRACE_TEST_MATRIX ??= "all";
process.env.MILLRACE_KILLS ??= "40";
await import("../../e2e/kill.test.ts");

export {};
