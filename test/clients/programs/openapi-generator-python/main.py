"""Creates, lists, reads, changes and deletes a connector with the client that OpenAPI Generator makes for Python."""

import json
import sys
import time

import millrace_client as api

base, connector_id, port = sys.argv[1:]
client = api.ApiClient(api.Configuration(host=base))
connectors = api.ConnectorsApi(client)
report = {}


def sink() -> api.SinkRequest:
    auth = api.WebhookAuthBearerRequest(bearer=api.WebhookAuthBearerValueRequest(token="secret"))
    webhook = api.WebhookSinkRequest(
        url="http://127.0.0.1:9",
        path_template="hooks/{schema}/{table}",
        auth=api.WebhookAuthRequest(auth),
        format=api.WebhookFormatRequest(api.WebhookFormatNativeRequest(native=api.NativeFormatRequest())),
        headers=api.WebhookSinkHeadersRequest(
            static_=[api.WebhookSinkHeadersStaticItemRequest(name="X-Env", value="prod")]
        ),
    )
    return api.SinkRequest(api.SinkWebhookRequest(webhook=webhook))


def request() -> api.ConnectorRequest:
    connection = api.PostgresConnectionRequest(
        host="127.0.0.1",
        port=int(port),
        user="postgres",
        password="postgres",
        database="postgres",
        ssl_mode="Disable",
    )
    replication = api.ReplicationTypeRequest(api.ReplicationTypeSnapshotRequest(snapshot={}))
    source = api.PostgresSourceRequest(connection=connection, replication_type=replication)
    cron = api.ScheduleCronValue(expression="0 3 * * *", timezone="Europe/Berlin")
    return api.ConnectorRequest(
        id="",
        name="Orders",
        disabled=True,
        # The generator makes one type of a union and its only member.
        source=api.SourceRequest(postgres=source),
        sink=sink(),
        schedule=api.Schedule(api.ScheduleCron(cron=cron)),
    )


created = connectors.create_or_replace_connector_with_http_info(connector_id, request())
report["created"] = created.status_code

listed = connectors.list_connectors().connectors
report["listed"] = any(item.connector.id == connector_id for item in listed)

got = connectors.get_connector(connector_id)
assert isinstance(got.status.state.actual_instance, api.StateDisabled)
assert isinstance(got.status.status.actual_instance, api.HealthComplete)
webhook = got.connector.sink.actual_instance.webhook
report["host"] = got.connector.source.postgres.connection.host
report["url"] = webhook.url
report["token"] = webhook.auth.actual_instance.bearer.token
report["cron"] = got.connector.schedule.actual_instance.cron.expression
report["state"] = "disabled"
report["health"] = "complete"

patched = connectors.patch_connector(connector_id, api.ConnectorPatch(name="Renamed"))
report["name"] = patched.connector.name

events = [event.actual_instance for event in api.InspectionApi(client).validate_sink(api.SinkBody(sink=sink()))]
assert isinstance(events[0], api.ValidateEventStart)
assert isinstance(events[-1], api.ValidateEventFailed)
report["test"] = events[1].test.test_type.actual_instance.network.subtype

report["deleted"] = connectors.delete_connector_with_http_info(connector_id).status_code
try:
    while connectors.get_connector(connector_id):
        time.sleep(0.1)
except api.exceptions.NotFoundException as error:
    report["problem"] = error.data.code
print(json.dumps(report))
