"""Creates, lists, reads, changes and deletes a connector with the client that openapi-python-client makes."""

import json
import sys
import time

from millrace_client import Client, models
from millrace_client.api.connectors import (
    create_or_replace_connector,
    delete_connector,
    get_connector,
    list_connectors,
    patch_connector,
)
from millrace_client.api.inspection import validate_sink

base, connector_id, port = sys.argv[1:]
client = Client(base_url=base)
report = {}


def sink() -> models.SinkWebhookRequest:
    bearer = models.WebhookAuthBearerValueRequest(token="secret")
    webhook = models.WebhookSinkRequest(
        url="http://127.0.0.1:9",
        auth=models.WebhookAuthBearerRequest(bearer=bearer),
        format_=models.WebhookFormatNativeRequest(native=models.NativeFormatRequest()),
        headers=models.WebhookSinkHeadersRequest(
            static=[models.WebhookSinkHeadersStaticItemRequest(name="X-Env", value="prod")]
        ),
    )
    return models.SinkWebhookRequest(webhook=webhook)


def request() -> models.ConnectorRequest:
    connection = models.PostgresConnectionRequest(
        host="127.0.0.1",
        port=int(port),
        user="postgres",
        password="postgres",
        database="postgres",
        ssl_mode=models.PostgresConnectionRequestSslMode.DISABLE,
    )
    replication = models.ReplicationTypeSnapshotRequest(snapshot=models.ReplicationTypeSnapshotRequestSnapshot())
    source = models.PostgresSourceRequest(connection=connection, replication_type=replication)
    cron = models.ScheduleCronValue(expression="0 3 * * *", timezone="Europe/Berlin")
    return models.ConnectorRequest(
        id="",
        name="Orders",
        disabled=True,
        source=models.SourcePostgresRequest(postgres=source),
        sink=sink(),
        schedule=models.ScheduleCron(cron=cron),
    )


created = create_or_replace_connector.sync_detailed(connector_id, client=client, body=request())
report["created"] = created.status_code

listed = list_connectors.sync(client=client).connectors
report["listed"] = any(item.connector.id == connector_id for item in listed)

got = get_connector.sync(connector_id, client=client)
assert isinstance(got.status.state, models.StateDisabled)
assert isinstance(got.status.status, models.HealthComplete)
assert isinstance(got.connector.sink, models.SinkWebhookRequest)
assert isinstance(got.connector.sink.webhook.auth, models.WebhookAuthBearerRequest)
report["host"] = got.connector.source.postgres.connection.host
report["url"] = got.connector.sink.webhook.url
report["token"] = got.connector.sink.webhook.auth.bearer.token
report["cron"] = got.connector.schedule.cron.expression
report["state"] = "disabled"
report["health"] = "complete"

patched = patch_connector.sync(connector_id, client=client, body=models.ConnectorPatch(name="Renamed"))
report["name"] = patched.connector.name

events = validate_sink.sync(client=client, body=models.SinkBody(sink=sink()))
assert isinstance(events[0], models.ValidateEventStart)
assert isinstance(events[1].test.test_type, models.TestTypeNetwork)
assert isinstance(events[-1], models.ValidateEventFailed)
report["test"] = events[1].test.test_type.network.subtype

report["deleted"] = delete_connector.sync_detailed(connector_id, client=client).status_code
while not isinstance(problem := get_connector.sync(connector_id, client=client), models.Problem):
    time.sleep(0.1)
report["problem"] = problem.code
print(json.dumps(report))
