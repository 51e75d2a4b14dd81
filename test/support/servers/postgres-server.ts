// The demo's Postgres server, as tests start it by the dozen: from a copy of a cluster that initdb has made once.

import {
  PostgresServer as DemoServer,
  type PostgresServerOptions,
} from "../../../src/demo/postgres-server.ts";
import { fromTemplate } from "./cluster-template.ts";

export type PostgresServer = DemoServer;

export const PostgresServer = {
  start: (options: PostgresServerOptions = {}): Promise<DemoServer> =>
    DemoServer.start({ fill: fromTemplate, ...options }),
};
