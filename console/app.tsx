// From the session to the page that the address names.

import { useEffect, useMemo } from "preact/hooks";
import { ConsoleProvider } from "./console-context.ts";
import { CheckingPage, UnreachablePage } from "./pages/connecting-page.tsx";
import { ConnectorPage } from "./pages/connector/connector-page.tsx";
import { ConnectorsPage } from "./pages/connectors/connectors-page.tsx";
import { EditPage } from "./pages/edit/edit-page.tsx";
import { ServicePage } from "./pages/service/service-page.tsx";
import { SignInAgain, SignInPage } from "./pages/sign-in-page.tsx";
import { UnknownPage } from "./pages/unknown-page.tsx";
import { ErrorBoundary } from "./parts/error-boundary.tsx";
import { address } from "./route/location.ts";
import { type Route, routeOf } from "./route/route.ts";
import { Shell } from "./shell.tsx";
import { Live } from "./store/live.ts";
import { Samples } from "./store/samples.ts";
import { type Access, Session } from "./store/session.ts";
import { useStore } from "./store/store.ts";

const session = new Session(location.origin);

export function App() {
  const state = useStore(session.state);
  useEffect(() => void session.check(), []);
  switch (state.kind) {
    case "checking":
      return <CheckingPage />;
    case "failed":
      return <UnreachablePage error={state.error} retry={() => session.check()} />;
    case "signedOut":
    case "signedIn":
      if (state.access === null) return <SignInPage session={session} {...state} />;
      return (
        <>
          <SignedIn access={state.access} />
          {state.kind === "signedOut" && <SignInAgain session={session} {...state} />}
        </>
      );
  }
}

function SignedIn({ access }: { readonly access: Access }) {
  const context = useMemo(() => {
    const { api } = session;
    const live = new Live(api, "/api/v1/events");
    return { session, api, access, live, samples: new Samples(api, live.connectors) };
  }, [access]);
  useEffect(() => {
    context.live.start();
    context.samples.start();
    return () => {
      void context.live.stop();
      context.samples.stop();
    };
  }, [context]);
  const route = useStore(address, (path) => path);
  const [path = "", search = ""] = route.split(/(?=\?)/);
  const page = routeOf(path, search);
  return (
    <ConsoleProvider value={context}>
      <Shell route={page}>
        <ErrorBoundary place={route}>
          <Page route={page} />
        </ErrorBoundary>
      </Shell>
    </ConsoleProvider>
  );
}

function Page({ route }: { readonly route: Route }) {
  switch (route.page) {
    case "connectors":
      return <ConnectorsPage />;
    case "connector":
      return <ConnectorPage key={route.id} id={route.id} tab={route.tab} />;
    case "new":
      return <EditPage key={`new ${route.from}`} id={null} from={route.from} step={route.step ?? "source"} />;
    case "edit":
      return <EditPage key={route.id} id={route.id} from={null} step={route.step ?? "source"} />;
    case "service":
      return <ServicePage />;
    case "unknown":
      return <UnknownPage />;
  }
}
