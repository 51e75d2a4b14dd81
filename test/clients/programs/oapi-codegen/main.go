// Creates, lists, reads, changes and deletes a connector with the client that oapi-codegen makes.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"client/api"
)

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// decode is strict, as the generated As… functions are not: they take any object for any member of a union.
func decode[T any](union any) (T, bool) {
	var member T
	decoder := json.NewDecoder(bytes.NewReader(must(json.Marshal(union))))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&member)
	return member, err == nil
}

func pointer[T any](value T) *T {
	return &value
}

func request(port int) api.ConnectorRequest {
	var replication api.ReplicationTypeRequest
	check(replication.FromReplicationTypeSnapshotRequest(api.ReplicationTypeSnapshotRequest{Snapshot: map[string]any{}}))
	var source api.SourceRequest
	check(source.FromSourcePostgresRequest(api.SourcePostgresRequest{Postgres: api.PostgresSourceRequest{
		Connection: api.PostgresConnectionRequest{
			Host: "127.0.0.1", Port: &port, User: "postgres", Password: pointer("postgres"), Database: "postgres",
			SslMode: pointer(api.PostgresConnectionRequestSslModeDisable),
		},
		ReplicationType: replication,
	}}))
	var schedule api.Schedule
	check(schedule.FromScheduleCron(api.ScheduleCron{
		Cron: api.ScheduleCronValue{Expression: "0 3 * * *", Timezone: "Europe/Berlin"},
	}))
	return api.ConnectorRequest{
		Id: "", Name: pointer("Orders"), Disabled: pointer(true), Source: source, Sink: sink(), Schedule: &schedule,
	}
}

func sink() api.SinkRequest {
	var auth api.WebhookAuthRequest
	check(auth.FromWebhookAuthBearerRequest(api.WebhookAuthBearerRequest{
		Bearer: api.WebhookAuthBearerValueRequest{Token: pointer("secret")},
	}))
	var format api.WebhookFormatRequest
	check(format.FromWebhookFormatNativeRequest(api.WebhookFormatNativeRequest{Native: api.NativeFormatRequest{}}))
	var sink api.SinkRequest
	check(sink.FromSinkWebhookRequest(api.SinkWebhookRequest{Webhook: api.WebhookSinkRequest{
		Url: "http://127.0.0.1:9", Auth: &auth, Format: &format,
		Headers: &api.WebhookSinkHeadersRequest{
			Static: &[]api.WebhookSinkHeadersStaticItemRequest{{Name: "X-Env", Value: pointer("prod")}},
		},
	}}))
	return sink
}

func main() {
	base, id := os.Args[1], os.Args[2]
	port := must(strconv.Atoi(os.Args[3]))
	ctx := context.Background()
	client := must(api.NewClientWithResponses(base))
	report := map[string]any{}

	created := must(client.CreateOrReplaceConnectorWithResponse(ctx, id, nil, request(port)))
	report["created"] = created.StatusCode()

	list := must(client.ListConnectorsWithResponse(ctx)).JSON200
	report["listed"] = slices.ContainsFunc(list.Connectors, func(item api.GivenConnector) bool {
		return item.Connector.Id == id
	})

	got := must(client.GetConnectorWithResponse(ctx, id)).JSON200
	source, isPostgres := decode[api.SourcePostgresRequest](got.Connector.Source)
	webhook, isWebhook := decode[api.SinkWebhookRequest](got.Connector.Sink)
	auth, isBearer := decode[api.WebhookAuthBearerRequest](*webhook.Webhook.Auth)
	schedule, isCron := decode[api.ScheduleCron](got.Connector.Schedule)
	_, isDisabled := decode[api.StateDisabled](got.Status.State)
	_, isStart := decode[api.StateStart](got.Status.State)
	_, isComplete := decode[api.HealthComplete](got.Status.Status)
	if !isPostgres || !isWebhook || !isBearer || !isCron || !isDisabled || isStart || !isComplete {
		check(fmt.Errorf("a union is not what was sent: %s", must(json.Marshal(got))))
	}
	report["host"] = source.Postgres.Connection.Host
	report["url"] = webhook.Webhook.Url
	report["token"] = auth.Bearer.Token
	report["cron"] = schedule.Cron.Expression
	report["state"] = "disabled"
	report["health"] = "complete"

	patched := must(client.PatchConnectorWithApplicationMergePatchPlusJSONBodyWithResponse(ctx, id, nil,
		api.ConnectorPatch{Name: pointer("Renamed")})).JSON200
	report["name"] = *patched.Connector.Name

	events := *must(client.ValidateSinkWithResponse(ctx, nil, api.SinkBody{Sink: sink()})).JSON200
	_, begins := decode[api.ValidateEventStart](events[0])
	test, isTest := decode[api.ValidateEventTest](events[1])
	network, isNetwork := decode[api.TestTypeNetwork](test.Test.TestType)
	_, ends := decode[api.ValidateEventFailed](events[len(events)-1])
	if !begins || !isTest || !isNetwork || !ends {
		check(fmt.Errorf("events are not as expected: %s", must(json.Marshal(events))))
	}
	report["test"] = network.Network.Subtype

	report["deleted"] = must(client.DeleteConnectorWithResponse(ctx, id)).StatusCode()
	gone := must(client.GetConnectorWithResponse(ctx, id))
	for ; gone.JSON200 != nil; gone = must(client.GetConnectorWithResponse(ctx, id)) {
		time.Sleep(100 * time.Millisecond)
	}
	report["problem"] = gone.ApplicationproblemJSON404.Code
	fmt.Println(string(must(json.Marshal(report))))
}
