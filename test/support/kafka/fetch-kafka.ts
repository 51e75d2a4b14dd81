// Fetches Kafka's programs, for CI: exits with 1 where brokers cannot run here, and says why in one line.

import { javaFlags } from "./java-flags.ts";
import { kafkaVersion, toolClasses } from "./kafka-jars.ts";

try {
  await toolClasses();
  await javaFlags();
  console.log(`Kafka ${kafkaVersion} is there`);
} catch (error) {
  console.error(String(error).trim().split("\n").slice(0, 2).join(" "));
  process.exit(1);
}
