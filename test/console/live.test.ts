// What the console knows of the link to a service that answers, and cannot say how things are.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { connect } from "../../console/api/client.ts";
import { Live } from "../../console/store/live.ts";
import { waitFor } from "../support/wait-for.ts";

const browser = globalThis as { document?: unknown; sessionStorage?: unknown };

const shownPage = { hidden: false, addEventListener: () => {}, removeEventListener: () => {} };

beforeAll(() => {
  browser.document = shownPage;
  browser.sessionStorage = { getItem: () => null };
});
afterAll(() => {
  delete browser.document;
  delete browser.sessionStorage;
});

test("a service without its state is not said to be silent: what it answers is kept until the list comes", async () => {
  let hasState = false;
  const unavailable = () =>
    Response.json({ code: "state_unavailable", detail: "The state cannot be reached." }, { status: 503 });
  await using service = Bun.serve({
    port: 0,
    routes: {
      "/api/v1/session": Response.json({ access: "Full" }),
      "/api/v1/connectors": () => (hasState ? Response.json({ connectors: [] }) : unavailable()),
      "/api/v1/events": unavailable,
    },
  });
  const { origin } = service.url;
  const live = new Live(
    connect(origin, () => {}),
    `${origin}/api/v1/events`,
  );
  live.start();
  try {
    await waitFor("the answer", () => live.link.value === "lost");
    expect(live.problem.value).toMatchObject({ status: 503, message: "The state cannot be reached." });
    hasState = true;
    await waitFor("the list", () => live.link.value === "polling");
    expect([live.problem.value, live.connectors.value?.size]).toEqual([null, 0]);
    await service.stop(true);
    await waitFor("the silence", () => live.link.value === "lost");
    expect(live.problem.value).toMatchObject({ status: 0, message: "The service does not answer." });
  } finally {
    await live.stop();
  }
});

test("once it has stopped, nothing looks at the page any more", async () => {
  await using service = Bun.serve({
    port: 0,
    routes: {
      "/api/v1/session": Response.json({ access: "Full" }),
      "/api/v1/connectors": Response.json({ connectors: [] }),
      // It sends nothing, and does not end.
      "/api/v1/events": () => new Response(new ReadableStream({})),
    },
  });
  const { origin } = service.url;
  const live = new Live(
    connect(origin, () => {}),
    `${origin}/api/v1/events`,
  );
  live.start();
  await waitFor("the list", () => live.connectors.value !== null);
  await live.stop();
  const looks: string[] = [];
  browser.document = new Proxy(shownPage, {
    get: (page, name) => {
      looks.push(String(name));
      return Reflect.get(page, name);
    },
  });
  await Bun.sleep(100);
  browser.document = shownPage;
  expect(looks).toEqual([]);
});
