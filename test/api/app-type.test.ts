// What TypeScript clients see of the app (Eden's `treaty<App>`): typed requests and responses, and no `any`.

import { expectTypeOf, test } from "bun:test";
import type { App } from "../../src/app.ts";
import type { ConnectorRequest, ConnectorWithStatus, GivenConnector } from "../../src/connector/connector.ts";
import type { Task } from "../../src/connector/task.ts";
import type { ValidateEvent } from "../../src/connector/validation.ts";

type V1 = App["~Routes"]["api"]["v1"];

test("requests and responses are typed", () => {
  expectTypeOf<V1["connectors"]["post"]["body"]>().toEqualTypeOf<ConnectorRequest>();
  expectTypeOf<V1["connectors"]["post"]["response"][201]>().toEqualTypeOf<ConnectorWithStatus>();
  expectTypeOf<V1["connectors"][":connector_id"]["get"]["response"][200]>().toEqualTypeOf<GivenConnector>();
  expectTypeOf<V1["connectors"][":connector_id"]["tasks"]["get"]["response"][200]>().toEqualTypeOf<Task[]>();
  expectTypeOf<V1["validate"]["sink"]["post"]["response"][200]>().toEqualTypeOf<ValidateEvent[]>();
});
