// What every page needs: the session with its API, and what is kept up to date.

import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Api } from "./api/client.ts";
import type { Live } from "./store/live.ts";
import type { Samples } from "./store/samples.ts";
import type { Access, Session } from "./store/session.ts";

export interface ConsoleContext {
  readonly session: Session;
  readonly api: Api;
  readonly live: Live;
  readonly samples: Samples;
  /** `Read`: show no action. */
  readonly access: Access;
}

const context = createContext<ConsoleContext | null>(null);
export const ConsoleProvider = context.Provider;

export function useConsole(): ConsoleContext {
  const value = useContext(context);
  if (!value) throw new Error("There is no console around this component.");
  return value;
}
