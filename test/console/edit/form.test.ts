// The form and the configuration: what is asked for defaults, where violations land, what cannot change.

import { describe, expect, test } from "bun:test";
import { allFields, everyField, stepOf } from "../../../console/pages/edit/fields/all-fields.ts";
import { isOutOfPlace, isShown } from "../../../console/pages/edit/fields/field-spec.ts";
import { connectionOf } from "../../../console/pages/edit/model/connection-url.ts";
import {
  blankConnector,
  blankSinks,
  cloneOf,
  freeId,
  type SinkKind,
  skeletonOf,
} from "../../../console/pages/edit/model/draft.ts";
import { valueAt, withValue } from "../../../console/pages/edit/model/pointer.ts";
import { placeProblems, withoutProblemsAt } from "../../../console/pages/edit/model/problems.ts";
import type { ConnectorRequest } from "../../../src/connector/connector.ts";
import { isConnectorId } from "../../../src/connector/connector-id.ts";
import { checkConnectorRequest } from "../../../src/connector/request/check-request.ts";
import { completeConnector } from "../../../src/connector/request/complete-connector.ts";
import { givenForm } from "../../../src/connector/request/given-form.ts";
import type { JsonObject } from "../../../src/connector/request/merge-patch.ts";
import { patchConnector } from "../../../src/connector/request/patch-connector.ts";
import { MillraceError } from "../../../src/errors/millrace-error.ts";

const kinds = Object.keys(blankSinks) as SinkKind[];
const ofKind = (kind: SinkKind): JsonObject => ({ ...blankConnector(), sink: { [kind]: blankSinks[kind] } });
const refused = (run: () => unknown): readonly { readonly path: string; readonly message: string }[] => {
  try {
    run();
  } catch (error) {
    if (error instanceof MillraceError) return error.violations;
    throw error;
  }
  return [];
};

describe("the configuration to begin with", () => {
  test.each(kinds)("of a sink %s lacks only what has a field", (kind) => {
    const draft = ofKind(kind);
    const violations = refused(() => checkConnectorRequest(draft));
    const defaults = completeConnector(skeletonOf(draft) as unknown as ConnectorRequest, "id");
    const fields = allFields(draft, defaults as unknown as JsonObject).map(({ path }) => path);
    const { others, byField } = placeProblems(violations, fields);
    expect(others).toEqual([]);
    expect([...byField.keys()]).toContain("/source/postgres/connection/host");
  });

  test.each(kinds)("has defaults to ask for, whatever the draft lacks: %s", (kind) => {
    const drafts = [
      ofKind(kind),
      withValue(ofKind(kind), "/source/postgres/replication_type", { snapshot: {} }),
      withValue(ofKind(kind), "/source/postgres/system_columns/op", {}),
      ...(kind === "postgres" ? [] : [withValue(ofKind(kind), `/sink/${kind}/format`, { debezium: {} })]),
    ];
    for (const draft of drafts) {
      const skeleton = skeletonOf(draft);
      expect(refused(() => checkConnectorRequest(skeleton))).toEqual([]);
      const full = completeConnector(skeleton as unknown as ConnectorRequest, "id");
      expect(Object.keys(full.sink)).toEqual([kind]);
    }
  });

  test("has a free id that the API takes", () => {
    const taken = new Set(["shop", "shop-2"]);
    expect(freeId("shop", (id) => taken.has(id))).toBe("shop-3");
    expect(freeId("שלום 😀", () => false)).toBe("");
    for (const name of ["My Shop!", "x".repeat(63), "<b>"])
      expect(isConnectorId(freeId(name, () => false))).toBe(true);
    expect(cloneOf({ id: "orders", name: "Orders", x: 1 }, () => false)).toEqual({
      id: "orders",
      name: null,
      x: 1,
    });
    // Two connectors that share these would share a checkpoint.
    const kafka = (own: JsonObject, transactions: JsonObject): JsonObject => ({
      name: null,
      sink: { kafka: { ...own, connection: { config: { transactions } } } },
    });
    const original = { id: "events", ...kafka({ name: "shop" }, { enabled: true, transactional_id: "t" }) };
    expect(cloneOf(original, (id) => id === "events")).toEqual({
      id: "events-2",
      ...kafka({}, { enabled: true }),
    });
  });
});

describe("violations", () => {
  const fields = ["/sink/kafka/connection/brokers", "/sink/kafka/connection/auth/password", "/id"];

  test("land at the nearest field, and those without one are told by their place", () => {
    const problems = [
      { path: "/sink/kafka/connection/brokers/1", message: "expected host:port" },
      { path: "/sink/kafka/connection/auth/password", message: "required" },
      { path: "/sink/kafka/connection/authority", message: "unknown key" },
    ];
    const { byField, others } = placeProblems(problems, fields);
    expect([...byField]).toEqual([
      ["/sink/kafka/connection/brokers", "2: expected host:port"],
      ["/sink/kafka/connection/auth/password", "Required"],
    ]);
    expect(others).toEqual([{ path: "/sink/kafka/connection/authority", message: "unknown key" }]);
  });

  test("go when something at their place changes", () => {
    const problems = [{ path: "/a/b", message: "x" }];
    expect(withoutProblemsAt(problems, "/a")).toEqual([]);
    expect(withoutProblemsAt(problems, "/a/b/c")).toEqual([]);
    expect(withoutProblemsAt(problems, "/a/bc")).toBe(problems);
  });
});

describe("fields", () => {
  const connection = { host: "h", user: "u", password: "p", database: "d" };
  const stored: Readonly<Record<SinkKind, JsonObject>> = {
    postgres: { connection },
    webhook: { url: "https://h", path_template: "p" },
    kafka: {
      connection: { brokers: ["h:1"], config: { transactions: { enabled: true, transactional_id: "t" } } },
      name: "n",
      format: { native: {} },
      topic_options: {},
    },
  };
  const others: Readonly<Record<string, string | number | boolean | readonly string[]>> = {
    port: 1,
    brokers: ["other:1"],
    enabled: false,
    url: "https://other",
  };

  test.each(kinds)("are fixed where a patch may not change them: %s", (kind) => {
    const request = { ...blankConnector(), id: "id", sink: { [kind]: stored[kind] } };
    const complete = withValue(request, "/source/postgres/connection", connection);
    const given = givenForm(complete as unknown as ConnectorRequest, "id");
    const draft = given as unknown as JsonObject;
    for (const field of everyField(draft)) {
      if (!["text", "number", "lines", "check"].includes(field.kind) || !isShown(field, draft, null))
        continue;
      const key = field.path.split("/").at(-1) ?? "";
      const value = valueAt(draft, field.path);
      const other =
        others[key] ??
        (typeof value === "boolean" ? !value : typeof value === "number" ? value + 1 : "other");
      const patch = withValue({}, field.path, other as string);
      let isRefused = false;
      try {
        patchConnector(given, patch);
      } catch (error) {
        isRefused = error instanceof MillraceError && error.code === "immutable_field";
      }
      expect([field.path, isRefused]).toEqual([field.path, field.isFixed === true]);
    }
  });

  test("that are a switch or a word show what the API does without them", () => {
    for (const kind of kinds) {
      const base = ofKind(kind);
      const drafts =
        kind === "postgres" ? [base] : [base, withValue(base, `/sink/${kind}/format`, { debezium: {} })];
      for (const draft of drafts) {
        const full = completeConnector(
          skeletonOf(draft) as unknown as ConnectorRequest,
          "id",
        ) as unknown as JsonObject;
        const silent = allFields(draft, full)
          .filter(
            (field) =>
              ["check", "choice", "words"].includes(field.kind) || (field.kind === "union" && !field.none),
          )
          .filter(({ path }) => valueAt(full, path) === undefined);
        expect(silent.map(({ path }) => path)).toEqual([]);
      }
    }
  });

  test("belong to one step each, and no place has two", () => {
    for (const kind of kinds) {
      const draft = ofKind(kind);
      const paths = everyField(draft).map(({ path }) => path);
      expect(new Set(paths).size).toBe(paths.length);
      expect(stepOf(`/sink/${kind}/nothing`, draft)).toBeNull();
    }
    expect(stepOf("/source/postgres/connection/host", blankConnector())).toBe("source");
  });

  test("of a log-in are out of place without one", () => {
    const draft = withValue(ofKind("kafka"), "/sink/kafka/connection/auth", {
      protocol: "Plaintext",
      username: "u",
    });
    const user = everyField(draft).find(({ path }) => path.endsWith("/auth/username"))!;
    expect(isOutOfPlace(user, draft, null)).toBe(true);
    expect(
      isOutOfPlace(user, withValue(draft, "/sink/kafka/connection/auth/protocol", "SaslSsl"), null),
    ).toBe(false);
  });
});

test("an address that is pasted is taken apart", () => {
  expect(connectionOf("postgres://me:p%40ss@db.example.com:6432/shop?sslmode=verify-full")).toEqual({
    host: "db.example.com",
    port: 6432,
    user: "me",
    password: "p@ss",
    database: "shop",
    ssl_mode: "VerifyFull",
  });
  expect(connectionOf("postgresql://[::1]:80/a")).toEqual({ host: "::1", port: 80, database: "a" });
  expect(connectionOf("db.example.com")).toBeNull();
  expect(connectionOf("postgres://")).toBeNull();
});
