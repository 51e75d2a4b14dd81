// Examines the service and its connectors: state, disk and threads; status, source, slot, clock and sink. It changes nothing.

import type { DoctorService } from "../api/services.ts";
import type { SinkConfig } from "../connector/config/sink-config.ts";
import type { SourceConfig } from "../connector/config/source-config.ts";
import type { ConnectorConfig } from "../connector/connector.ts";
import { type Diagnosis, type Finding, fine } from "../connector/diagnosis.ts";
import type { ConnectorStatus } from "../connector/status.ts";
import type { ValidateEvent } from "../connector/validation.ts";
import { MillraceError, toMillraceError } from "../errors/millrace-error.ts";
import { statusFindings } from "./status-findings.ts";
import { validationFindings } from "./validation-findings.ts";

/** What is stored of a connector, and known of its run. */
export interface Patient {
  readonly config: ConnectorConfig;
  readonly initialized: boolean;
  readonly status: ConnectorStatus;
}

export interface DoctorContext {
  /** All, oldest first. Throws when the store does not answer. */
  patients(): Promise<readonly Patient[]>;
  /** What is wrong with the state store; null: nothing. */
  stateTrouble(): Promise<string | null>;
  threadTrouble(): string | null;
  examineDisk(): Promise<Finding>;
  /** Of what streams: its slot, and its source's clock. Throws what keeps it from connecting. */
  examineSource(
    connector: ConnectorConfig,
    known: { readonly isBegun: boolean; readonly resumeLsn: string | null },
    signal: AbortSignal,
  ): Promise<readonly Finding[]>;
  validateSource(
    config: SourceConfig,
    signal: AbortSignal,
    connectorId: string | null,
  ): Promise<readonly ValidateEvent[]>;
  validateSink(config: SinkConfig, signal: AbortSignal): Promise<readonly ValidateEvent[]>;
}

/** Connectors that are examined side by side. */
const atOnce = 4;
/** For one side of a connector. */
const sideMs = 30_000;

export class LiveDoctorService implements DoctorService {
  constructor(private readonly context: DoctorContext) {}

  async examine(connectorId: string | null, signal: AbortSignal): Promise<readonly Diagnosis[]> {
    const store = await this.context.stateTrouble();
    const service = await this.#examineService(store);
    const about = (connector: string | null) => (finding: Finding) => ({ connector, ...finding });
    const patients = store === null ? await this.#patients(connectorId) : [];
    const found: Diagnosis[][] = [];
    for (let next = 0; next < patients.length; next += atOnce) {
      const group = patients.slice(next, next + atOnce).map(async (patient) => {
        return (await this.#examineConnector(patient, signal)).map(about(patient.config.id));
      });
      found.push(...(await Promise.all(group)));
    }
    return [...service.map(about(null)), ...found.flat()];
  }

  async #patients(connectorId: string | null): Promise<readonly Patient[]> {
    const all = await this.context.patients();
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
    const ping = `psql "$DATABASE_URL" -c 'select 1'`;
    return [
      store === null
        ? fine("state", "The state store answers.")
        : { about: "state", severity: "failed", finding: store, commands: [ping] },
      disk,
      thread === null
        ? fine("threads", "Every worker gives signs of life.")
        : { about: "threads", severity: "failed", finding: thread, commands: [] },
    ];
  }

  async #examineConnector({ config, initialized, status }: Patient, signal: AbortSignal): Promise<Finding[]> {
    const [source, sink] = await Promise.all([
      this.#examineSource(config, initialized, status, signal),
      this.#examineSink(config, signal),
    ]);
    return [...statusFindings(config.id, status), ...source, ...sink];
  }

  async #examineSource(
    config: ConnectorConfig,
    isBegun: boolean,
    { state, status, progress }: ConnectorStatus,
    signal: AbortSignal,
  ): Promise<readonly Finding[]> {
    return await within("source", signal, async (limited) => {
      const events = await this.context.validateSource(config.source, limited, config.id);
      const found = validationFindings("source", events);
      // What keeps it from connecting is among the events.
      const isThere = events.some(({ test }) => test?.test_type.ServerInfo && test.status.Success);
      if (!isThere) return found;
      // While a run goes on, the slot moves on with what it acknowledges: it is beyond what was told of it a moment ago.
      const isOver =
        status.failed !== undefined || state.shutdown !== undefined || state.disabled !== undefined;
      const known = { isBegun, resumeLsn: isOver ? (progress?.resume_lsn ?? null) : null };
      return [...found, ...(await this.context.examineSource(config, known, limited))];
    });
  }

  async #examineSink({ sink }: ConnectorConfig, signal: AbortSignal): Promise<readonly Finding[]> {
    return await within("sink", signal, async (limited) =>
      validationFindings("sink", await this.context.validateSink(sink, limited)),
    );
  }
}

/** A side that does not answer in time has failed, and the other findings are told. */
async function within(
  about: "source" | "sink",
  signal: AbortSignal,
  examine: (limited: AbortSignal) => Promise<readonly Finding[]>,
): Promise<readonly Finding[]> {
  const limit = AbortSignal.timeout(sideMs);
  try {
    return await examine(AbortSignal.any([signal, limit]));
  } catch (error) {
    signal.throwIfAborted();
    const finding = limit.aborted
      ? `The ${about} did not answer within ${sideMs / 1000} s.`
      : toMillraceError(error).message;
    return [{ about, severity: "failed", finding, commands: [] }];
  }
}
