// Creates, lists, reads, changes and deletes a connector with the types that openapi-typescript makes, and openapi-fetch.

import createClient from "openapi-fetch";
import type { components, paths } from "./api.d.ts";

type Schemas = components["schemas"];

const [base = "", id = "", port = ""] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl: base });
const path = { connector_id: id };

const sink: Schemas["SinkRequest"] = {
  webhook: {
    url: "http://127.0.0.1:9",
    auth: { bearer: { token: "secret" } },
    format: { native: {} },
    headers: { static_: [{ name: "X-Env", value: "prod" }] },
  },
};
const body: Schemas["ConnectorRequest"] = {
  id: "",
  name: "Orders",
  disabled: true,
  source: {
    postgres: {
      connection: {
        host: "127.0.0.1",
        port: Number(port),
        user: "postgres",
        password: "postgres",
        database: "postgres",
        ssl_mode: "Disable",
      },
      replication_type: { snapshot: {} },
    },
  },
  sink,
  schedule: { cron: { expression: "0 3 * * *", timezone: "Europe/Berlin" } },
};

// The types refuse what the service does.
// @ts-expect-error: there is no such key.
const wrongKey: Schemas["ConnectorPatch"] = { nmae: "Renamed" };
// @ts-expect-error: there is no such word.
const wrongWord: Schemas["PostgresConnectionRequest"]["ssl_mode"] = "disable";
void [wrongKey, wrongWord];

const created = await client.POST("/api/v1/connectors/{connector_id}", { params: { path }, body });
const list = await client.GET("/api/v1/connectors");
const { data: got } = await client.GET("/api/v1/connectors/{connector_id}", { params: { path } });
if (!got) throw new Error("The connector cannot be read.");
const { source, sink: target, schedule } = got.connector;
if (!("webhook" in target) || !target.webhook.auth || !("bearer" in target.webhook.auth))
  throw new Error(`The sink is not what was sent: ${JSON.stringify(target)}`);
if (!schedule || !("cron" in schedule)) throw new Error(`The schedule is not what was sent.`);
if (!("disabled" in got.status.state) || !("complete" in got.status.status))
  throw new Error(`The status is not that of a disabled connector: ${JSON.stringify(got.status)}`);

const patched = await client.PATCH("/api/v1/connectors/{connector_id}", {
  params: { path },
  body: { name: "Renamed" },
});
const { data: events = [] } = await client.POST("/api/v1/validate/sink", { body: { sink } });
const [first, second] = events;
const last = events.at(-1);
if (!first || !("start" in first) || !last || !("failed" in last) || !second || !("test" in second))
  throw new Error(`The events are not as expected: ${JSON.stringify(events)}`);
const { test_type: type } = second.test;

const deleted = await client.DELETE("/api/v1/connectors/{connector_id}", { params: { path } });
const look = () => client.GET("/api/v1/connectors/{connector_id}", { params: { path } });
let gone = await look();
while (gone.data) {
  await new Promise((resolve) => setTimeout(resolve, 100));
  gone = await look();
}

console.log(
  JSON.stringify({
    created: created.response.status,
    listed: list.data?.connectors.some(({ connector }) => connector.id === id),
    host: source.postgres.connection.host,
    url: target.webhook.url,
    token: target.webhook.auth.bearer.token,
    cron: schedule.cron.expression,
    state: "disabled",
    health: "complete",
    name: patched.data?.connector.name,
    test: "Network" in type ? type.Network.subtype : null,
    deleted: deleted.response.status,
    problem: gone.error?.code,
  }),
);
