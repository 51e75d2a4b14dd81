import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { MillraceError } from "../../../src/errors/millrace-error.ts";
import { topicCollisions, topicName } from "../../../src/sink/kafka/topic-name.ts";

const table = (schema: string, name: string, database = "shop") => ({ database, schema, table: name });
const standard = "millrace.{database_or_schema}.{table}";

function refusal(template: string, name: string): MillraceError {
  try {
    topicName(template, table("public", name), "Default");
  } catch (error) {
    if (error instanceof MillraceError) return error;
  }
  throw new Error("nothing was refused");
}

describe("the name of a topic", () => {
  test("has the names in the places of the placeholders", () => {
    const orders = table("sales", "orders");
    expect(topicName(standard, orders, "Default")).toBe("millrace.sales.orders");
    expect(topicName("{database}-{schema}-{table}-{table}", orders, "Default")).toBe(
      "shop-sales-orders-orders",
    );
    expect(topicName("all", orders, "Default")).toBe("all");
  });

  test("a name that looks like a placeholder stays as it is", () => {
    expect(topicName("{schema}.{table}", table("{table}", "$&"), "Unicode")).toBe(
      "_u007Btable_u007D._u0024_u0026",
    );
  });

  test.each([
    ["Bestellungen 2024", "Bestellungen_2024", "Bestellungen_u00202024"],
    ["größe", "gr__e", "gr_u00F6_u00DFe"],
    ["a/b", "a_b", "a_u002Fb"],
    ["😀", "__", "_uD83D_uDE00"],
    ["A-z_0.9", "A-z_0.9", "A-z_0.9"],
  ])("%s becomes %s, and %s in Unicode", (name, plain, unicode) => {
    expect(topicName("{table}", table("s", name), "Default")).toBe(plain);
    expect(topicName("{table}", table("s", name), "Unicode")).toBe(unicode);
  });

  test("has at most 249 characters", () => {
    expect(topicName("{table}", table("s", "a".repeat(249)), "Default")).toHaveLength(249);
    const { code, message } = refusal("{table}", "a".repeat(250));
    expect(code).toBe("invalid_topic_name");
    expect(message).toContain(`table public.${"a".repeat(250)} would be ${"a".repeat(250)}`);
    expect(message).toContain("250 characters, and Kafka takes at most 249");
  });

  test.each([".", ".."])("is not %s", (name) => {
    expect(refusal("{table}", name).message).toContain("Kafka keeps this name for itself");
  });

  test("is one that Kafka takes, whatever the names", () => {
    const name = fc.string({ minLength: 1, maxLength: 8, unit: "binary" });
    fc.assert(
      fc.property(name, name, fc.constantFrom("Default", "Unicode"), (schema, each, mode) => {
        expect(topicName(standard, table(schema, each), mode)).toMatch(/^[A-Za-z0-9._-]{1,249}$/);
      }),
    );
  });
});

describe("tables that share a topic", () => {
  const collisions = (template: string, ...tables: ReturnType<typeof table>[]) =>
    topicCollisions(template, tables, "Default");

  test("against the template are told", () => {
    const [one, other, third] = [table("s", "a b"), table("s", "a/b"), table("s", "ab")];
    expect(collisions(standard, one, other, third)).toEqual([
      { topic: "millrace.s.a_b", tables: [one, other] },
    ]);
    expect(topicCollisions(standard, [one, other, third], "Unicode")).toEqual([]);
  });

  test("by where one name ends and the other begins", () => {
    const tables = [table("a.b", "c"), table("a", "b.c")];
    expect(collisions("{schema}.{table}", ...tables)).toEqual([{ topic: "a.b.c", tables }]);
  });

  test("on purpose are none", () => {
    const tables = [table("a", "orders"), table("b", "orders"), table("b", "people")];
    expect(collisions("everything", ...tables)).toEqual([]);
    expect(collisions("{table}", ...tables)).toEqual([]);
    expect(collisions("{schema}", ...tables)).toEqual([]);
    expect(collisions("{database}", ...tables)).toEqual([]);
  });

  test("in a template without the schema, tables of different names are still told apart", () => {
    const tables = [table("a", "x y"), table("b", "x_y")];
    expect(collisions("{table}", ...tables)).toEqual([{ topic: "x_y", tables }]);
  });
});
