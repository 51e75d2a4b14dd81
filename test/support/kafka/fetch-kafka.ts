// Fetches Kafka's programs, for CI: exits with 1 where they are not to be had, and says why in one line. All else that
// may go wrong is for the tests to say.

import { kafkaJars } from "./kafka-jars.ts";

try {
  await kafkaJars();
} catch (error) {
  const said = error instanceof Error ? error.message : String(error);
  console.error(said.trim().split("\n").slice(0, 2).join(" "));
  process.exit(1);
}
