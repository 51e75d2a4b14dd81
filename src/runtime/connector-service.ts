// Answers the API's requests about connectors. A call changes the stored record and has the supervisor reconcile it. So
// whatever was answered is durable, and its effects survive a restart.

import type { ConnectorService } from "../api/services.ts";
import { KeyedQueue } from "../concurrency/keyed-queue.ts";
import type {
  Command,
  ConnectorConfig,
  ConnectorRequest,
  ConnectorWithStatus,
  GivenConnector,
} from "../connector/connector.ts";
import { newConnectorId, slotName } from "../connector/connector-id.ts";
import { completeConnector } from "../connector/request/complete-connector.ts";
import type { JsonObject } from "../connector/request/merge-patch.ts";
import { patchConnector } from "../connector/request/patch-connector.ts";
import { type Precondition, requireCondition, unconditional } from "../connector/request/precondition.ts";
import { removedSettings } from "../connector/request/removed-settings.ts";
import { resolveConnector, resolveGiven } from "../connector/request/resolve-connector.ts";
import type { HistoryEntry } from "../connector/status.ts";
import { type TableStatus, withVerified } from "../connector/table-status.ts";
import { listedNames } from "../errors/listed-names.ts";
import { MillraceError, toMillraceError } from "../errors/millrace-error.ts";
import type { State } from "../state/open-state.ts";
import {
  type ConnectorChange,
  type ConnectorStore,
  connectorNotFound,
  noRound,
  type StoredConnector,
} from "../state/stores/connector-store.ts";
import { changeFor } from "./command-change.ts";
import { refuseSharedIdentity } from "./kafka-identity.ts";
import { needsFreshStart } from "./run/fresh-start.ts";
import type { StatusBoard } from "./status/status-board.ts";
import type { Statuses } from "./status/statuses.ts";
import type { Supervisor } from "./supervisor.ts";

export interface ConnectorServiceContext {
  readonly state: State;
  readonly board: StatusBoard;
  readonly statuses: Statuses;
  readonly supervisor: Supervisor;
  readonly now: () => Date;
  readonly randomBytes: (count: number) => Uint8Array;
  readonly newRunId: () => string;
  /** Hears of what is stored; left out: nobody wants to know. */
  readonly watch?: ConnectorWatch;
}

/** Must neither block nor throw. */
export interface ConnectorWatch {
  connectorCreated(connectorId: string): void;
  /** Its configuration is another one, or is written in another way. */
  connectorChanged(connectorId: string): void;
}

/** How long a call waits for a deletion before it answers. The deletion continues afterwards. */
const deletionMs = 10_000;

export class StoredConnectorService implements ConnectorService {
  readonly #queue = new KeyedQueue();

  constructor(private readonly context: ConnectorServiceContext) {}

  async list(): Promise<readonly GivenConnector[]> {
    const stored = await this.context.state.connectors.list();
    return stored.map((connector) => this.#show(connector));
  }

  async get(id: string): Promise<GivenConnector> {
    return this.#show(await this.context.state.connectors.get(id));
  }

  async create(request: ConnectorRequest): Promise<ConnectorWithStatus> {
    const id = newConnectorId(this.context.now().getTime(), this.context.randomBytes);
    const stored = await this.#insert(resolveGiven(request, { id, stored: null }));
    return { ...this.#show(stored), connector: stored.config };
  }

  createOrReplace(
    id: string,
    request: ConnectorRequest,
    cloneFrom: string | null,
    precondition: Precondition = unconditional,
  ): Promise<"created" | "replaced"> {
    return this.#queue.run(id, async () => {
      await this.#untilDeleted(id);
      const clone = cloneFrom === null ? null : await this.context.state.connectors.get(cloneFrom);
      const resolve = (existing: StoredConnector | null) => {
        if (existing) refuseIfDeleted(existing);
        requireCondition(id, existing?.given ?? null, precondition);
        const { config = null } = clone ?? existing ?? {};
        return resolveGiven(request, { id, stored: config, replaces: existing !== null && clone === null });
      };
      if (await this.#replace(id, resolve)) return "replaced";
      if (await this.#insertFirst(id, () => resolve(null))) return "created";
      // Made by another replica meanwhile, and deleted again.
      if (!(await this.#replace(id, resolve))) throw beingDeleted(id);
      return "replaced";
    });
  }

  patch(id: string, patch: JsonObject, precondition: Precondition = unconditional): Promise<GivenConnector> {
    return this.#queue.run(id, async () => {
      const isThere = await this.#replace(id, (stored) => {
        refuseIfDeleted(stored);
        requireCondition(id, stored.given, precondition);
        return patchConnector(stored.given, patch);
      });
      if (!isThere) throw connectorNotFound(id);
      return this.get(id);
    });
  }

  async command(id: string, command: Command, precondition: Precondition = unconditional): Promise<void> {
    const isDeletion = command === "Delete" || command === "ForceDelete";
    await this.#queue.run(id, async () => {
      const isThere = await this.#change(id, (stored) => {
        if (!isDeletion) refuseIfDeleted(stored);
        requireCondition(id, stored.given, precondition);
        return changeFor(command, stored, this.context);
      });
      if (!isThere) throw connectorNotFound(id);
    });
    if (isDeletion) await this.context.supervisor.settled(id, deletionMs);
  }

  async history(id: string): Promise<readonly HistoryEntry[]> {
    await this.context.state.connectors.get(id);
    await this.context.board.flush();
    return this.context.state.history.list(id);
  }

  async tables(id: string): Promise<readonly TableStatus[]> {
    const { state, statuses } = this.context;
    const { runId } = await state.connectors.get(id);
    const verified = await state.tasks.verified(id);
    return withVerified(await statuses.tables(id, runId), verified);
  }

  async preview(request: ConnectorRequest, fillFrom: string | null): Promise<ConnectorConfig> {
    const filler = fillFrom === null ? null : await this.context.state.connectors.get(fillFrom);
    // Of the same id: what a replacement would make.
    const replaces = fillFrom === request.id;
    return resolveConnector(request, { id: request.id, stored: filler?.config ?? null, replaces });
  }

  /** Returns false when another replica has stored a connector of this id meanwhile. */
  async #insertFirst(id: string, resolve: () => ConnectorRequest): Promise<boolean> {
    try {
      await this.#insert(resolve());
      return true;
    } catch (error) {
      const isTaken = toMillraceError(error).code === "conflict";
      if (!isTaken || (await this.context.state.connectors.find(id)) === null) throw error;
      return false;
    }
  }

  async #insert(given: ConnectorRequest): Promise<StoredConnector> {
    const { id } = given;
    const stored: StoredConnector = {
      id,
      given,
      config: completeConnector(given, id),
      slotName: slotName(id),
      stopped: false,
      deletion: null,
      cleanup: null,
      initialized: false,
      resumes: false,
      ...noRound,
      runId: this.context.newRunId(),
      createdAt: this.context.now(),
    };
    const inserted = this.context.state.connectors.alone(async (store) => {
      await refuseSharedIdentity(stored.config, null, () => store.list());
      await store.insert(stored);
    });
    await this.#reconcileAfter(id, inserted, () => true);
    this.context.watch?.connectorCreated(id);
    this.#begin(id, stored.runId);
    return stored;
  }

  /**
   * A connector whose full form stays the same continues undisturbed: applying the same config twice is no event, and
   * neither is to write a default down. Returns false when there is no such connector.
   */
  async #replace(id: string, resolve: (stored: StoredConnector) => ConnectorRequest): Promise<boolean> {
    const refuse = async (store: ConnectorStore) => {
      const before = await store.find(id);
      if (before === null) return;
      const after = completeConnector(resolve(before), id);
      await refuseSharedIdentity(after, before.config, () => store.list());
    };
    let removed: readonly string[] = [];
    let runId: string | null = null;
    let isChanged = false;
    const isThere = await this.#change(
      id,
      (stored) => {
        const given = resolve(stored);
        const config = completeConnector(given, id);
        if (Bun.deepEquals(stored.config, config)) {
          isChanged = !Bun.deepEquals(stored.given, given);
          return isChanged ? { given } : null;
        }
        const cleanup = needsFreshStart(stored.config, config) ? { cleanup: stored.config } : {};
        [isChanged, runId, removed] = [
          true,
          this.context.newRunId(),
          removedSettings(stored, { given, config }),
        ];
        return { given, ...cleanup, runId };
      },
      refuse,
    );
    if (isChanged) this.context.watch?.connectorChanged(id);
    if (runId !== null && removed.length > 0) this.context.board.note(id, runId, removalText(removed));
    return isThere;
  }

  /** Returns false when there is no such connector. `refuse`: looks at the other connectors first, and may throw. */
  async #change(
    id: string,
    decide: (stored: StoredConnector) => ConnectorChange | null,
    refuse?: (store: ConnectorStore) => Promise<void>,
  ): Promise<boolean> {
    let change: ConnectorChange | null = null;
    const changeIn = (store: ConnectorStore) =>
      store.change(id, (stored) => {
        change = decide(stored);
        return change;
      });
    const { connectors } = this.context.state;
    const afterRefusal = async (store: ConnectorStore) => {
      await refuse?.(store);
      return await changeIn(store);
    };
    const changed = refuse ? connectors.alone(afterRefusal) : changeIn(connectors);
    const stored = await this.#reconcileAfter(id, changed, () => change !== null);
    this.#begin(id, (change as ConnectorChange | null)?.runId);
    return stored !== null;
  }

  /** A run that this replica is about to begin, or that nobody has reported on, is starting. */
  #begin(id: string, runId: string | undefined): void {
    if (runId !== undefined && this.context.supervisor.holds(id)) this.context.board.begin(id, runId);
  }

  /** Reconciles even after an error: the change may be stored although its answer was lost. */
  async #reconcileAfter<Result>(
    id: string,
    stored: Promise<Result>,
    isChanged: () => boolean,
  ): Promise<Result> {
    try {
      return await stored;
    } finally {
      if (isChanged()) this.context.supervisor.reconcile(id);
    }
  }

  /** An id may be used again once its deletion is complete. */
  async #untilDeleted(id: string): Promise<void> {
    const stored = await this.context.state.connectors.find(id);
    if (!stored?.deletion) return;
    await this.context.supervisor.settled(id, deletionMs);
    if (await this.context.state.connectors.find(id)) throw beingDeleted(id);
  }

  #show({ id, given, runId, createdAt }: StoredConnector): GivenConnector {
    return {
      connector: given,
      status: this.context.statuses.status({ id, runId }),
      run_id: runId,
      created_at: createdAt.toISOString(),
    };
  }
}

/** A configuration may name every table of a database. */
const maxListed = 20;

function removalText(removed: readonly string[]): string {
  return `The configuration was replaced, and no longer has ${listedNames(removed, maxListed)}. To keep a setting, send it again.`;
}

function refuseIfDeleted({ id, deletion }: StoredConnector): void {
  if (deletion) throw beingDeleted(id);
}

export function beingDeleted(id: string): MillraceError {
  return new MillraceError(
    "conflict",
    `The connector ${id} is being deleted, and its source has not been cleaned up yet. ForceDelete does not wait for the source.`,
  );
}
