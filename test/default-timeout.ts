// How long a test may take that sets no bound of its own, also where other work keeps the processors busy.
// The long commands ask for more by MILLRACE_TEST_TIMEOUT_MS.

import { setDefaultTimeout } from "bun:test";

setDefaultTimeout(Number(process.env.MILLRACE_TEST_TIMEOUT_MS ?? 120_000));
