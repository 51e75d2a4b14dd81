import { expect, test } from "bun:test";
import { readSettings } from "../../../src/config.ts";

const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT";
const otlp = (environment: Record<string, string>) => readSettings({}, environment).otlp;

test("without an endpoint nothing is pushed, whatever else is set", () => {
  expect(otlp({ OTEL_SERVICE_NAME: "x", OTEL_METRIC_EXPORT_INTERVAL: "5000" })).toBeNull();
  expect(otlp({ OTEL_SERVICE_NAME: "", OTEL_METRIC_EXPORT_INTERVAL: "", [endpoint]: "" })).toBeNull();
});

test.each([
  ["OTEL_METRIC_EXPORT_INTERVAL", "abc"],
  ["OTEL_METRIC_EXPORT_INTERVAL", " "],
  ["OTEL_EXPORTER_OTLP_HEADERS", "planted"],
  ["OTEL_RESOURCE_ATTRIBUTES", "planted"],
  ["OTEL_SERVICE_NAME", " "],
  ["OTEL_METRICS_EXPORTER", "planted"],
])("%s=%s is refused without an endpoint too", (name, value) => {
  const refused = expect.objectContaining({
    code: "invalid_setting",
    message: expect.stringContaining(name),
  });
  expect(() => otlp({ [name]: value })).toThrow(refused);
  expect(() => otlp({ [endpoint]: "http://collector:4318", [name]: value })).toThrow(refused);
});

test.each([
  ["http://collector:4318", "http://collector:4318/v1/metrics"],
  ["http://collector:4318/", "http://collector:4318/v1/metrics"],
  ["https://example.com/otlp/", "https://example.com/otlp/v1/metrics"],
  ["https://example.com/otlp?tenant=1", "https://example.com/otlp/v1/metrics?tenant=1"],
])("metrics have their path below %s", (base, url) => {
  expect(otlp({ [endpoint]: base })).toEqual({
    url,
    headers: {},
    intervalMs: 60_000,
    resource: { "service.name": "millrace" },
  });
});

test("the switches of OpenTelemetry turn the push off", () => {
  const pushes = (more: Record<string, string>) =>
    otlp({ [endpoint]: "http://collector:4318", ...more }) !== null;
  for (const exporter of ["none", "prometheus"])
    expect(pushes({ OTEL_METRICS_EXPORTER: exporter })).toBeFalse();
  expect(pushes({ OTEL_METRICS_EXPORTER: "prometheus, otlp" })).toBeTrue();
  expect(pushes({ OTEL_SDK_DISABLED: "True" })).toBeFalse();
  expect(pushes({ OTEL_SDK_DISABLED: "false" })).toBeTrue();
});

test("an address for metrics alone is taken as it is, and wins", () => {
  const own = { OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: "http://metrics:9/in", [endpoint]: "http://all:4318" };
  expect(otlp(own)?.url).toBe("http://metrics:9/in");
});

test("headers and attributes are lists of pairs, percent-encoded; the service's name wins over theirs", () => {
  const environment = {
    [endpoint]: "http://collector:4318",
    OTEL_EXPORTER_OTLP_HEADERS: "api-key=abc%3D%2C1, authorization=Bearer%20t ,",
    OTEL_RESOURCE_ATTRIBUTES: "service.name=other,deployment.environment=pro%20d,empty=",
    OTEL_METRIC_EXPORT_INTERVAL: "5000",
  };
  expect(otlp(environment)).toMatchObject({
    headers: { "api-key": "abc=,1", authorization: "Bearer t" },
    resource: { "service.name": "other", "deployment.environment": "pro d", empty: "" },
    intervalMs: 5_000,
  });
  expect(otlp({ ...environment, OTEL_SERVICE_NAME: "mine" })?.resource["service.name"]).toBe("mine");
});

test.each([
  [endpoint, "planted:4318"],
  [endpoint, "grpc://planted:4317"],
  [endpoint, "http://u:planted@collector:4318"],
  ["OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "planted"],
  ["OTEL_METRIC_EXPORT_INTERVAL", "60s planted"],
  ["OTEL_METRIC_EXPORT_INTERVAL", "10"],
  ["OTEL_METRIC_EXPORT_INTERVAL", "-1"],
  ["OTEL_EXPORTER_OTLP_HEADERS", "planted"],
  ["OTEL_EXPORTER_OTLP_HEADERS", "a b=planted"],
  ["OTEL_EXPORTER_OTLP_HEADERS", "a=planted%0d%0ab: c"],
  ["OTEL_EXPORTER_OTLP_HEADERS", "a=planted%"],
  ["OTEL_EXPORTER_OTLP_HEADERS", "Content-Type=planted"],
  ["OTEL_RESOURCE_ATTRIBUTES", "planted"],
  ["OTEL_RESOURCE_ATTRIBUTES", "=planted"],
  ["OTEL_RESOURCE_ATTRIBUTES", "a=planted%zz"],
])("%s=%s is refused by its name, without its value", (name, value) => {
  const read = () => otlp({ [endpoint]: "http://collector:4318", [name]: value });
  expect(read).toThrow(expect.objectContaining({ code: "invalid_setting" }));
  expect(read).toThrow(name);
  expect(read).not.toThrow(/planted/);
});
