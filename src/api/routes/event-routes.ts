// Tells what happens, as it happens.

import { Type } from "@sinclair/typebox";
import { Elysia } from "elysia";
import { eventStream } from "../event-stream.ts";
import { NoQuery, problems } from "../openapi/named-schemas.ts";
import type { EventService } from "../services.ts";

const detail = {
  operationId: "followEvents",
  tags: ["Service"],
  summary: "Follow what happens",
  description:
    "Server-sent events. The data of each is JSON on one line: `status` a StatusEvent, `connector` a ConnectorEvent, `task` a " +
    "TaskEvent, `replica` a ReplicaEvent, `reset` a ResetEvent; names that are not known are to be ignored. A client that sends the id of its last event in " +
    "`Last-Event-ID`, as browsers do, goes on behind it: about the last 1000 events are known. Of several changes of one status, " +
    "task or replica that a client has not taken yet, it gets the last. One that lets 1000 events or 1 MB wait gets `reset` in their place, and so does one " +
    "whose last event is not known any more. A comment comes every 15 s. At most 100 clients follow at once.",
};

const headers = {
  "content-type": "text/event-stream",
  "cache-control": "no-store",
  // Proxies that gather responses would hold events back.
  "x-accel-buffering": "no",
};

export function eventRoutes(events: EventService) {
  return new Elysia({ name: "event-routes", prefix: "/api/v1", normalize: false }).get(
    "/events",
    ({ request }) => {
      // Nobody would ever read the stream.
      if (request.method === "HEAD") return new Response(null, { headers });
      const follower = events.follow(request.headers.get("last-event-id"));
      return new Response(eventStream(follower), { headers });
    },
    {
      query: NoQuery,
      response: { 200: Type.String({ description: "The stream of events." }), ...problems(503) },
      detail,
    },
  );
}
