// Which Java runs Debezium Server in a benchmark, and what is said where there is none.

import { expect, test } from "bun:test";
import { javaProgram, lackOfJava, versionOf } from "../../bench/kafka/debezium-distribution.ts";

test("the Java is that of MILLRACE_BENCH_JAVA_HOME, else of JAVA_HOME, else of the path", () => {
  expect(javaProgram({ MILLRACE_BENCH_JAVA_HOME: "/opt/java", JAVA_HOME: "/usr/java" })).toBe(
    "/opt/java/bin/java",
  );
  expect(javaProgram({ MILLRACE_BENCH_JAVA_HOME: "", JAVA_HOME: "/usr/java" })).toBe("/usr/java/bin/java");
  expect(javaProgram({})).toBe("java");
});

test("a Java that is too old, or not there, is told in one sentence with what to do", () => {
  const said = versionOf('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment');
  expect(said).toBe("17.0.15");
  expect(lackOfJava("java", said)).toBe(
    "Debezium Server needs Java 21 or newer, and java is 17.0.15: " +
      "install one (apt-get install openjdk-21-jre-headless) and set MILLRACE_BENCH_JAVA_HOME to its directory.",
  );
  expect(lackOfJava("/opt/java/bin/java", null)).toContain("/opt/java/bin/java does not run");
  expect(lackOfJava("java", "1.8.0_402")).toContain("java is 1.8.0_402");
  expect(lackOfJava("java", "21.0.5")).toBeNull();
  expect(lackOfJava("java", "25")).toBeNull();
});
