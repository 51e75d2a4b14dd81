// A client of a schema registry of Confluent's kind: gives the id of a schema under a subject, registered where that is allowed. An id
// never changes, so it is asked for once.
// https://docs.confluent.io/platform/current/schema-registry/develop/api.html
//
// Errors: `sink_unreachable` (away, late, 408, 425, 429, 5xx, an answer that is not the registry's) is for the caller to try again;
// `sink_authentication_failed` (401, 403) and `sink_schema_rejected` (incompatible, invalid, not there) are permanent.

import type { AddressResolver } from "../../../connection/egress.ts";
import type { MessageSerde } from "../../../connector/config/kafka/kafka-format.ts";
import { registryFailure } from "./registry-failure.ts";
import { type RegistryAnswer, RegistryRequests } from "./registry-request.ts";

export type AvroSerde = Extract<MessageSerde, { kind: "avro" }>;

/** As `AvroSchema`. */
export interface RegisteredSchema {
  /** As JSON. */
  readonly text: string;
  /** The full name of its record. */
  readonly name: string;
}

const defaultTimeoutMs = 10_000;
const largestId = 2 ** 31 - 1;

export class SchemaRegistry {
  readonly #requests: RegistryRequests;
  /** Ids by subject and schema; also of requests under way. */
  readonly #ids = new Map<string, Promise<number>>();

  constructor(
    private readonly serde: AvroSerde,
    resolver: AddressResolver,
    timeoutMs: number = defaultTimeoutMs,
  ) {
    this.#requests = new RegistryRequests(serde.registry, timeoutMs, resolver);
  }

  /** The id of the schema of a topic's keys or values. `signal` ends the request; others that wait for the same id fail with it. */
  async idOf(
    topic: string,
    part: "key" | "value",
    schema: RegisteredSchema,
    signal?: AbortSignal,
  ): Promise<number> {
    const subject = this.#subject(topic, part, schema.name);
    const name = JSON.stringify([subject, schema.text]);
    const known = this.#ids.get(name);
    if (known) return await known;
    const asked = this.#ask(subject, schema.text, signal);
    this.#ids.set(name, asked);
    try {
      return await asked;
    } catch (error) {
      this.#ids.delete(name);
      throw error;
    }
  }

  /** Whether the registry answers, and lets the user in: throws as `idOf` where not. */
  async check(signal?: AbortSignal): Promise<void> {
    const answer = await this.#requests.send("/subjects?subjectPrefix=millrace-none", null, signal);
    if (answer.status !== 200 || !/^\s*\[/.test(answer.body)) throw this.#failure(null, answer);
  }

  async #ask(subject: string, schema: string, signal?: AbortSignal): Promise<number> {
    const path = `/subjects/${encodeURIComponent(subject)}${this.serde.autoRegister ? "/versions" : ""}`;
    const answer = await this.#requests.send(path, { schema, schemaType: "AVRO" }, signal);
    const id = answer.status === 200 ? idIn(answer.body) : null;
    if (id === null) throw this.#failure(subject, answer);
    return id;
  }

  /** https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#subject-name-strategy */
  #subject(topic: string, part: "key" | "value", recordName: string): string {
    const { subjectNameStrategy: strategy } = this.serde;
    if (strategy === "TopicName") return `${topic}-${part}`;
    return strategy === "RecordName" ? recordName : `${topic}-${recordName}`;
  }

  #failure(subject: string | null, answer: RegistryAnswer): Error {
    return registryFailure(this.#requests, subject, answer);
  }
}

/** Null: there is none. */
function idIn(body: string): number | null {
  try {
    const answer: unknown = JSON.parse(body);
    const id = typeof answer === "object" && answer !== null && "id" in answer ? answer.id : null;
    return typeof id === "number" && Number.isInteger(id) && id >= 0 && id <= largestId ? id : null;
  } catch {
    return null;
  }
}
