// The HTTP side of the service as one app: routes, body parsing, authentication, errors, documentation. The services
// are passed in; serve.ts listens.

import { Elysia } from "elysia";
import { readConsoleAssets } from "./api/console/console-assets.ts";
import { consolePatterns, consoleRoutes } from "./api/console/console-routes.ts";
import { documentPatterns, documentRoutes } from "./api/documents/document-routes.ts";
import { errorHandling, type ReportFault } from "./api/error-handling.ts";
import {
  type AccessOf,
  type Authentication,
  accessReader,
  authenticationGuard,
  usedMethods,
} from "./api/guards/authentication.ts";
import { callerName } from "./api/guards/caller-name.ts";
import { crossSiteGuard } from "./api/guards/cross-site-guard.ts";
import { type AcceptsHost, hostGuard } from "./api/guards/host-guard.ts";
import { queryGuard } from "./api/guards/query-guard.ts";
import { swaggerRoutes } from "./api/openapi/swagger-routes.ts";
import { commandRoutes } from "./api/routes/command-routes.ts";
import { connectorCreationRoutes } from "./api/routes/connector-creation-routes.ts";
import { connectorRoutes } from "./api/routes/connector-routes.ts";
import { doctorRoutes } from "./api/routes/doctor-routes.ts";
import { eventRoutes } from "./api/routes/event-routes.ts";
import { explainRoutes } from "./api/routes/explain-routes.ts";
import { inspectionRoutes } from "./api/routes/inspection-routes.ts";
import { type CallerOf, parkedRoutes } from "./api/routes/parked-routes.ts";
import { reportRoutes } from "./api/routes/report-routes.ts";
import { sampleRoutes } from "./api/routes/sample-routes.ts";
import { serviceRoutes } from "./api/routes/service-routes.ts";
import { sessionRoutes } from "./api/routes/session-routes.ts";
import { sshKeyRoutes } from "./api/routes/ssh-key-routes.ts";
import { tableRoutes } from "./api/routes/table-routes.ts";
import { taskRoutes } from "./api/routes/task-routes.ts";
import type { Services } from "./api/services.ts";

export interface AppDependencies {
  readonly services: Services;
  readonly authentication: Authentication;
  /** Which hosts requests may name; null: any. */
  readonly acceptsHost: AcceptsHost | null;
  /** Shown in the OpenAPI document. */
  readonly version: string;
  /** Logs a fault. The client gets only the id that it returns. */
  readonly reportFault: ReportFault;
}

const pagePatterns = [...consolePatterns, ...documentPatterns];

/** The types of all routes, for Eden: `treaty<App>("localhost:3000")`. */
export type App = ReturnType<typeof createApp>;

export function createApp(dependencies: AppDependencies) {
  const { services, authentication, acceptsHost, version, reportFault } = dependencies;
  const accessOf = accessReader(authentication);
  const callerOf = callerName(authentication);
  const routes = apiRoutes(services, version, accessOf, callerOf);
  const documentation = swaggerRoutes(() => apiRoutes(services, version, accessOf, callerOf), {
    version,
    authentication: usedMethods(authentication),
  });
  // Without standardHostname the router finds no path after a host of fewer than four characters.
  return new Elysia({ normalize: false, handler: { standardHostname: false } })
    .use(errorHandling(reportFault, () => [...routes.routes, ...documentation.routes, ...pagePatterns]))
    .use(hostGuard(acceptsHost))
    .use(crossSiteGuard)
    .use(consoleRoutes(readConsoleAssets))
    .use(documentRoutes())
    .use(authenticationGuard(authentication, accessOf))
    .use(queryGuard)
    .use(documentation)
    .use(routes);
}

function apiRoutes(services: Services, version: string, accessOf: AccessOf, callerOf: CallerOf) {
  return new Elysia({ normalize: false })
    .use(connectorCreationRoutes(services.connectors))
    .use(connectorRoutes(services.connectors))
    .use(commandRoutes(services.connectors))
    .use(taskRoutes(services.tasks))
    .use(parkedRoutes(services.parked, callerOf, accessOf))
    .use(tableRoutes(services.connectors))
    .use(explainRoutes(services.explain))
    .use(inspectionRoutes(services.inspection))
    .use(doctorRoutes(services.doctor))
    .use(eventRoutes(services.events))
    .use(sampleRoutes(services.samples))
    .use(reportRoutes(services.report))
    .use(sshKeyRoutes())
    .use(sessionRoutes(accessOf))
    .use(serviceRoutes(services, version));
}
