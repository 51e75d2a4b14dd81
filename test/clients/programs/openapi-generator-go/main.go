// Creates, lists, reads, changes and deletes a connector with the client that OpenAPI Generator makes for Go.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"time"

	"client/api"
)

// must exits with the answer of the service if there was one.
func must[T any](value T, _ *http.Response, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err == nil {
		return
	}
	if answer, ok := err.(*api.GenericOpenAPIError); ok {
		fmt.Fprintln(os.Stderr, string(answer.Body()))
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func request(port int32) api.ConnectorRequest {
	connection := api.NewPostgresConnectionRequest("127.0.0.1", "postgres", "postgres")
	connection.SetPort(port)
	connection.SetPassword("postgres")
	connection.SetSslMode("Disable")
	replication := api.ReplicationTypeSnapshotRequestAsReplicationTypeRequest(
		api.NewReplicationTypeSnapshotRequest(map[string]any{}))
	// The generator makes one type of a union and its only member.
	source := api.NewSourceRequest(*api.NewPostgresSourceRequest(*connection, replication))
	schedule := api.ScheduleCronAsSchedule(
		api.NewScheduleCron(*api.NewScheduleCronValue("0 3 * * *", "Europe/Berlin")))
	connector := api.NewConnectorRequest("", *source, sink())
	connector.SetName("Orders")
	connector.SetDisabled(true)
	connector.SetSchedule(schedule)
	return *connector
}

func sink() api.SinkRequest {
	bearer := api.NewWebhookAuthBearerValueRequest()
	bearer.SetToken("secret")
	static := api.NewWebhookSinkHeadersStaticItemRequest("X-Env")
	static.SetValue("prod")
	headers := api.NewWebhookSinkHeadersRequest()
	headers.SetStatic([]api.WebhookSinkHeadersStaticItemRequest{*static})
	webhook := api.NewWebhookSinkRequest("http://127.0.0.1:9")
	webhook.SetAuth(api.WebhookAuthBearerRequestAsWebhookAuthRequest(api.NewWebhookAuthBearerRequest(*bearer)))
	webhook.SetFormat(api.WebhookFormatNativeRequestAsWebhookFormatRequest(
		api.NewWebhookFormatNativeRequest(*api.NewNativeFormatRequest())))
	webhook.SetHeaders(*headers)
	return api.SinkWebhookRequestAsSinkRequest(api.NewSinkWebhookRequest(*webhook))
}

func main() {
	base, id := os.Args[1], os.Args[2]
	port, err := strconv.Atoi(os.Args[3])
	check(err)
	ctx := context.Background()
	configuration := api.NewConfiguration()
	configuration.Servers = api.ServerConfigurations{{URL: base}}
	client := api.NewAPIClient(configuration)
	report := map[string]any{}

	created, err := client.ConnectorsAPI.CreateOrReplaceConnector(ctx, id).ConnectorRequest(request(int32(port))).Execute()
	check(err)
	report["created"] = created.StatusCode

	list := must(client.ConnectorsAPI.ListConnectors(ctx).Execute())
	report["listed"] = slices.ContainsFunc(list.Connectors, func(item api.GivenConnector) bool {
		return item.Connector.Id == id
	})

	got := must(client.ConnectorsAPI.GetConnector(ctx, id).Execute())
	webhook := got.Connector.Sink.SinkWebhookRequest.Webhook
	auth := webhook.GetAuth()
	schedule := got.Connector.GetSchedule()
	if got.Status.State.StateDisabled == nil || got.Status.Status.HealthComplete == nil {
		check(fmt.Errorf("the status is not that of a disabled connector: %v", got.Status))
	}
	report["host"] = got.Connector.Source.Postgres.Connection.Host
	report["url"] = webhook.Url
	report["token"] = auth.WebhookAuthBearerRequest.Bearer.Token
	report["cron"] = schedule.ScheduleCron.Cron.Expression
	report["state"] = "disabled"
	report["health"] = "complete"

	patch := api.NewConnectorPatch()
	patch.SetName("Renamed")
	patched := must(client.ConnectorsAPI.PatchConnector(ctx, id).ConnectorPatch(*patch).Execute())
	report["name"] = patched.Connector.GetName()

	events := must(client.InspectionAPI.ValidateSink(ctx).SinkBody(*api.NewSinkBody(sink())).Execute())
	if events[0].ValidateEventStart == nil || events[len(events)-1].ValidateEventFailed == nil {
		check(fmt.Errorf("the events do not begin and fail: %v", events))
	}
	report["test"] = events[1].ValidateEventTest.Test.TestType.TestTypeNetwork.Network.Subtype

	deleted, err := client.ConnectorsAPI.DeleteConnector(ctx, id).Execute()
	check(err)
	report["deleted"] = deleted.StatusCode
	for err == nil {
		time.Sleep(100 * time.Millisecond)
		_, _, err = client.ConnectorsAPI.GetConnector(ctx, id).Execute()
	}
	report["problem"] = err.(*api.GenericOpenAPIError).Model().(api.Problem).Code
	text, err := json.Marshal(report)
	check(err)
	fmt.Println(string(text))
}
