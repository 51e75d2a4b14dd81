// The survival tests with the durations that are promised: a sink that hangs for a minute, proxies that stall for three.

process.env.MILLRACE_TEST_MATRIX ??= "all";
process.env.MILLRACE_LONG_TESTS = "1";
await import("../runtime/survival.thorough.ts");

export {};
