// Examines the service (state, disk, threads, replicas) and its connectors, wherever they run (status, source, slot,
// clock, sink). It changes nothing.

import type { DoctorService } from "../api/services.ts";
import type { SinkConfig } from "../connector/config/sink-config.ts";
import type { SourceConfig } from "../connector/config/source-config.ts";
import type { ConnectorConfig } from "../connector/connector.ts";
import type { ParkedTotal } from "../connector/parked-message.ts";
import { canResume } from "../connector/request/resume-refusal.ts";
import { type Diagnosis, type Finding, fine } from "../connector/service/diagnosis.ts";
import { type ConnectorStatus, stands } from "../connector/status.ts";
import type { Validate } from "../connector/validation.ts";
import { MillraceError, toMillraceError } from "../errors/millrace-error.ts";
import { type ExaminedInstallation, holderFindings, replicaFindings } from "./replica-findings.ts";
import { parkedFindings, statusFindings } from "./status-findings.ts";
import { validationFindings } from "./validation-findings.ts";

/** A stored connector with its current status. */
export interface ExaminedConnector {
  readonly config: ConnectorConfig;
  readonly initialized: boolean;
  readonly status: ConnectorStatus;
  /** What is parked of it; absent: nothing. */
  readonly parked?: ParkedTotal | undefined;
}

export interface DoctorContext {
  /** All connectors, oldest first. Throws when the store does not answer. */
  connectors(): Promise<readonly ExaminedConnector[]>;
  /** What is wrong with the state store; null: nothing. */
  stateTrouble(): Promise<string | null>;
  threadTrouble(): string | null;
  /** The replicas as they were read last; null: the state is embedded, so there is one, or they were not read yet. */
  installation(): ExaminedInstallation | null;
  readonly now: () => Date;
  examineDisk(): Promise<Finding>;
  /** The slot and the source's clock, for a connector that streams. Throws connection errors. */
  examineSource(
    connector: ConnectorConfig,
    known: { readonly isBegun: boolean; readonly isResumable: boolean; readonly resumeLsn: string | null },
    signal: AbortSignal,
  ): Promise<readonly Finding[]>;
  readonly validateSource: Validate<SourceConfig>;
  readonly validateSink: Validate<SinkConfig>;
}

/** How many connectors are examined at once. */
const maxConcurrent = 4;
/** Time limit for one side of a connector. */
const sideMs = 30_000;
/** For all connectors: a client that has heard nothing by 90 s is cut off. */
const defaultWholeMs = 60_000;

export class LiveDoctorService implements DoctorService {
  constructor(
    private readonly context: DoctorContext,
    private readonly wholeMs = defaultWholeMs,
  ) {}

  async examine(connectorId: string | null, signal: AbortSignal): Promise<readonly Diagnosis[]> {
    const limits = { signal, whole: AbortSignal.timeout(this.wholeMs) };
    const store = await this.context.stateTrouble();
    const service = await this.#examineService(store);
    const about = (connector: string | null) => (finding: Finding) => ({ connector, ...finding });
    const connectors = store === null ? await this.#connectors(connectorId) : [];
    const found: Diagnosis[][] = [];
    for (let next = 0; next < connectors.length; next += maxConcurrent) {
      const group = connectors.slice(next, next + maxConcurrent).map(async (connector) => {
        return (await this.#examineConnector(connector, limits)).map(about(connector.config.id));
      });
      found.push(...(await Promise.all(group)));
    }
    return [...service.map(about(null)), ...found.flat()];
  }

  async #connectors(connectorId: string | null): Promise<readonly ExaminedConnector[]> {
    const all = await this.context.connectors();
    if (connectorId === null) return all;
    const chosen = all.filter(({ config }) => config.id === connectorId);
    if (chosen.length === 0) {
      throw new MillraceError("connector_not_found", "There is no connector of this id.");
    }
    return chosen;
  }

  async #examineService(store: string | null): Promise<Finding[]> {
    const disk = await this.context.examineDisk();
    const thread = this.context.threadTrouble();
    // Nobody else can ask an embedded one.
    const commands = this.context.installation() === null ? [] : [`psql "$DATABASE_URL" -c 'select 1'`];
    return [
      store === null
        ? fine("state", "The state store answers.")
        : { about: "state", severity: "failed", finding: store, commands },
      disk,
      thread === null
        ? fine("threads", "Every worker gives signs of life.")
        : { about: "threads", severity: "failed", finding: thread, commands: [] },
      ...this.#ofInstallation((installation) => replicaFindings(installation, this.context.now())),
    ];
  }

  async #examineConnector(
    { config, initialized, status, parked }: ExaminedConnector,
    limits: Limits,
  ): Promise<Finding[]> {
    const [source, sink] = await Promise.all([
      this.#examineSource(config, initialized, status, limits),
      this.#examineSink(config, limits),
    ]);
    const holder = this.#ofInstallation((installation) => holderFindings(config.id, installation));
    const own = [
      ...statusFindings(config.id, status, canResume(config)),
      ...parkedFindings(config.id, parked),
    ];
    return [...own, ...holder, ...source, ...sink];
  }

  #ofInstallation(find: (installation: ExaminedInstallation) => readonly Finding[]): readonly Finding[] {
    const installation = this.context.installation();
    return installation ? find(installation) : [];
  }

  async #examineSource(
    config: ConnectorConfig,
    isBegun: boolean,
    status: ConnectorStatus,
    limits: Limits,
  ): Promise<readonly Finding[]> {
    return await within("source", config.id, limits, async (limited) => {
      const events = await this.context.validateSource(config.source, limited, config.id);
      const found = validationFindings("source", events);
      // If it cannot connect, the events say why.
      const isThere = events.some(({ test }) => test?.test_type.ServerInfo && test.status.Success);
      if (!isThere) return found;
      // A running connector keeps acknowledging: its slot may be ahead of the position that was read a moment ago.
      const resumeLsn = stands(status) ? (status.progress?.resume_lsn ?? null) : null;
      const known = { isBegun, isResumable: canResume(config), resumeLsn };
      return [...found, ...(await this.context.examineSource(config, known, limited))];
    });
  }

  async #examineSink({ id, sink }: ConnectorConfig, limits: Limits): Promise<readonly Finding[]> {
    return await within("sink", id, limits, async (limited) =>
      validationFindings("sink", await this.context.validateSink(sink, limited, id)),
    );
  }
}

interface Limits {
  /** Nobody waits for the findings any more. */
  readonly signal: AbortSignal;
  /** The time for all connectors is over. */
  readonly whole: AbortSignal;
}

/** A side that does not answer in time becomes a failed finding, so that the others are still reported. */
async function within(
  about: "source" | "sink",
  connector: string,
  { signal, whole }: Limits,
  examine: (limited: AbortSignal) => Promise<readonly Finding[]>,
): Promise<readonly Finding[]> {
  const limit = AbortSignal.timeout(sideMs);
  try {
    whole.throwIfAborted();
    return await examine(AbortSignal.any([signal, limit, whole]));
  } catch (error) {
    signal.throwIfAborted();
    const failed = (finding: string, commands: string[] = []): readonly Finding[] => [
      { about, severity: "failed", finding, commands },
    ];
    if (whole.aborted) {
      const finding = `There was no time left to examine the ${about}: others took too long. Examine it by itself.`;
      return failed(finding, [`millrace doctor ${connector}`]);
    }
    if (limit.aborted) return failed(`The ${about} did not answer within ${sideMs / 1000} s.`);
    return failed(toMillraceError(error).message);
  }
}
