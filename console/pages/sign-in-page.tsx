import { useState } from "preact/hooks";
import { ApiProblem } from "../api/problem.ts";
import { Button } from "../parts/button.tsx";
import { Dialog } from "../parts/dialog.tsx";
import { TextField } from "../parts/field.tsx";
import { Failure, Notice } from "../parts/notice.tsx";
import { useTitle } from "../route/use-title.ts";
import type { Credentials, Session } from "../store/session.ts";

interface SignInProps {
  readonly session: Session;
  readonly takesBasic: boolean;
  readonly takesBearer: boolean;
  readonly usedBearer: boolean;
}

export function SignInPage(props: SignInProps) {
  useTitle("Sign in");
  return (
    <main class="page sign-in">
      <div class="card stack">
        <div class="row">
          <img src="/console/assets/icon.svg" alt="" width="40" height="40" />
          <h1>Sign in to millrace</h1>
        </div>
        <SignInForm {...props} />
      </div>
    </main>
  );
}

/** Over the page, which keeps what was typed. */
export function SignInAgain(props: SignInProps) {
  return (
    <Dialog title="Sign in again" onClose={null}>
      <p>The service does not take the credentials any more. What you have typed is still here.</p>
      <SignInForm {...props} />
      <div>
        <Button kind="plain" onClick={() => props.session.signOut()}>
          Sign out, and drop what was typed
        </Button>
      </div>
    </Dialog>
  );
}

function SignInForm({ session, takesBasic, takesBearer, usedBearer }: SignInProps) {
  const isBasicFirst = takesBasic && !(takesBearer && usedBearer);
  const [kind, setKind] = useState<Credentials["kind"]>(isBasicFirst || !takesBearer ? "basic" : "bearer");
  const [username, setUsername] = useState("");
  const [secret, setSecret] = useState("");
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);

  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await session.signIn(kind === "basic" ? { kind, username, password: secret } : { kind, token: secret });
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  const other = kind === "basic" ? "bearer" : "basic";
  return (
    <form class="stack" onSubmit={submit}>
      {error !== null && <SignInFailure error={error} />}
      {kind === "basic" && (
        <TextField
          {...{
            label: "User name",
            name: "username",
            autocomplete: "username",
            required: true,
            autoFocus: true,
          }}
          {...{ spellcheck: false, value: username, onValue: setUsername }}
        />
      )}
      <TextField
        {...{
          label: kind === "basic" ? "Password" : "Token",
          type: "password",
          name: "secret",
          required: true,
        }}
        {...{
          autocomplete: "current-password",
          value: secret,
          onValue: setSecret,
          autoFocus: kind === "bearer",
        }}
        hint="It is kept until this tab is closed."
      />
      <div class="row apart">
        <Button type="submit" kind="primary" disabled={isBusy}>
          Sign in
        </Button>
        {takesBasic && takesBearer && (
          <Button kind="plain" onClick={() => setKind(other)}>
            {other === "bearer" ? "Use a token" : "Use a user name"}
          </Button>
        )}
      </div>
    </form>
  );
}

function SignInFailure({ error }: { readonly error: unknown }) {
  const isWrong = error instanceof ApiProblem && error.status === 401;
  if (!isWrong) return <Failure title="Sign-in failed" error={error} />;
  return (
    <Notice tone="bad" title="These credentials are wrong" role="alert">
      <p>
        They are what the service was started with: <code>MILLRACE_USERNAME</code> and{" "}
        <code>MILLRACE_PASSWORD</code>, <code>MILLRACE_API_TOKEN</code>, or the read-only ones.
      </p>
    </Notice>
  );
}
