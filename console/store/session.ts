// Who uses the console, and what they may do.

import { type Api, answer, connect } from "../api/client.ts";
import {
  basicCredentials,
  bearerCredentials,
  storeCredentials,
  storedCredentials,
} from "../api/credentials.ts";
import { ApiProblem } from "../api/problem.ts";
import { Store } from "./store.ts";

/** The answer needs nothing from the state or from a database. */
const checkMs = 10_000;

export type Access = "Full" | "Read";

export type SessionState =
  | { readonly kind: "checking" }
  | {
      readonly kind: "signedOut";
      /** The ways that the service takes. */
      readonly takesBasic: boolean;
      readonly takesBearer: boolean;
      /** A token was taken before: it is asked for first. */
      readonly usedBearer: boolean;
      /** Not null: the credentials that somebody used no longer do. What they typed is still there. */
      readonly access: Access | null;
    }
  | { readonly kind: "signedIn"; readonly access: Access }
  /** The service was not reached. */
  | { readonly kind: "failed"; readonly error: unknown };

export type Credentials =
  | { readonly kind: "basic"; readonly username: string; readonly password: string }
  | { readonly kind: "bearer"; readonly token: string };

export class Session {
  readonly state = new Store<SessionState>({ kind: "checking" });
  readonly api: Api;

  constructor(origin: string) {
    this.api = connect(origin, (challenge) => this.#refused(challenge));
  }

  /** Finds out whether what the browser has is enough. */
  async check(): Promise<void> {
    try {
      const fetch = { signal: AbortSignal.timeout(checkMs) };
      const { access } = await answer(this.api.session.get({ fetch }));
      this.state.set({ kind: "signedIn", access });
    } catch (error) {
      if (!(error instanceof ApiProblem && error.status === 401)) this.state.set({ kind: "failed", error });
    }
  }

  /** Throws `ApiProblem` 401 where the credentials are wrong. */
  async signIn(credentials: Credentials): Promise<void> {
    const authorization =
      credentials.kind === "basic"
        ? basicCredentials(credentials.username, credentials.password)
        : bearerCredentials(credentials.token);
    if (authorization === null)
      throw new ApiProblem(401, "unauthorized", "A token has no spaces, and no letters beyond ASCII.");
    storeCredentials(authorization);
    try {
      const { access } = await answer(this.api.session.get());
      this.state.set({ kind: "signedIn", access });
    } catch (error) {
      storeCredentials(null);
      throw error;
    }
  }

  signOut(): void {
    storeCredentials(null);
    this.state.set({ kind: "checking" });
    void this.check();
  }

  #refused(challenge: string): void {
    const usedBearer = storedCredentials()?.startsWith("Bearer ") === true;
    storeCredentials(null);
    const before = this.state.value;
    // Pages go on asking: one refusal is enough.
    if (before.kind === "signedOut") return;
    this.state.set({
      kind: "signedOut",
      takesBasic: /\bbasic\b/i.test(challenge),
      takesBearer: /\bbearer\b/i.test(challenge),
      usedBearer,
      access: before.kind === "signedIn" ? before.access : null,
    });
  }
}
