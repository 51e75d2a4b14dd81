// The frame around every page: where one is, whether what is shown is up to date, and who is signed in.

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { storedCredentials } from "./api/credentials.ts";
import type { Tone } from "./connector/condition.ts";
import { useConsole } from "./console-context.ts";
import { Badge } from "./parts/badge.tsx";
import { Button } from "./parts/button.tsx";
import { Failure } from "./parts/notice.tsx";
import { Link } from "./route/link.tsx";
import type { Route } from "./route/route.ts";
import { lateFailure } from "./store/late-failure.ts";
import type { Link as LinkState } from "./store/live.ts";
import { useStore } from "./store/store.ts";
import { chooseTheme, type Theme, theme } from "./store/theme.ts";

const linkStates: Readonly<Record<LinkState, readonly [tone: Tone, word: string, title: string]>> = {
  connecting: ["idle", "Connecting", "Asking the service for its events."],
  live: ["good", "Live", "Changes are shown as they happen."],
  polling: [
    "warning",
    "Every 5 s",
    "Events do not come through, perhaps because of a proxy. The page asks every 5 seconds instead.",
  ],
  lost: ["bad", "Not connected", ""],
};

const whileLost = "What is shown is what was known last. The page tries again by itself.";

export function Shell({ route, children }: { readonly route: Route; readonly children: ComponentChildren }) {
  const main = useRef<HTMLElement>(null);
  const shown = useRef(keyOf(route));
  const late = useStore(lateFailure);
  useEffect(() => {
    // After a move, those who use the keyboard or hear the page go on at the new page.
    if (shown.current === keyOf(route)) return;
    shown.current = keyOf(route);
    main.current?.focus({ preventScroll: true });
  }, [keyOf(route)]);
  return (
    <div class="shell">
      <a class="button skip" href="#main">
        Skip to the page
      </a>
      <Top route={route} />
      <main class="page" id="main" tabIndex={-1} ref={main}>
        {late && <Failure {...late} dismiss={() => lateFailure.set(null)} />}
        {children}
      </main>
      <footer class="foot">
        <a href="/swagger">API</a> · <a href="/metrics">Metrics</a>
      </footer>
    </div>
  );
}

function Top({ route }: { readonly route: Route }) {
  const { live, session, access } = useConsole();
  const [tone, word, title] = linkStates[useStore(live.link)];
  const problem = useStore(live.problem);
  // A proxy that finds no service has no code of it.
  const isOwn = problem !== null && problem.status > 0 && problem.code !== "";
  return (
    <header class="top">
      <div class="top-inner">
        <Link class="brand" to={{ page: "connectors" }}>
          <img src="/console/assets/icon.svg" alt="" />
          millrace
        </Link>
        <nav class="main-nav" aria-label="Pages">
          <Link
            to={{ page: "connectors" }}
            {...current(route.page !== "service" && route.page !== "unknown")}
          >
            Connectors
          </Link>
          <Link to={{ page: "service" }} {...current(route.page === "service")}>
            Service
          </Link>
        </nav>
        <span class="link-state" role="status" title={problem ? `${problem.message} ${whileLost}` : title}>
          <Badge tone={tone}>{isOwn ? "Not working" : word}</Badge>
        </span>
        {access === "Read" && <Badge tone="idle">Read only</Badge>}
        <ThemeChoice />
        {storedCredentials() !== null && (
          <Button size="small" kind="plain" onClick={() => session.signOut()}>
            Sign out
          </Button>
        )}
      </div>
    </header>
  );
}

function ThemeChoice() {
  const chosen = useStore(theme);
  return (
    <label class="small soft">
      <span class="only-spoken">Colours</span>
      <select
        class="input"
        value={chosen}
        onChange={(event) => chooseTheme(event.currentTarget.value as Theme)}
      >
        <option value="system">System colours</option>
        <option value="light">Light</option>
        <option value="dark">Dark</option>
      </select>
    </label>
  );
}

const current = (isCurrent: boolean) => (isCurrent ? { "aria-current": "page" as const } : {});

/** Tabs of one connector are one page. */
function keyOf(route: Route): string {
  return "id" in route ? `${route.page} ${route.id}` : route.page;
}
