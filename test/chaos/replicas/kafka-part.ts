// A broker beside the other sinks, with a load of its own whose every change must be there exactly once.

import { slotName } from "../../../src/connector/connector-id.ts";
import type { JsonBody } from "../../../src/demo/api-client.ts";
import type { PostgresServer } from "../../../src/demo/postgres-server.ts";
import { untilDurable } from "../../support/kafka/fault-rig.ts";
import { KafkaCluster } from "../../support/kafka/kafka-cluster.ts";
import { checkTopics, oracleCatalog, oracleSql, oracleTableSql } from "../../support/kafka/kafka-oracle.ts";
import { type OracleLoad, oracleLoad } from "../../support/kafka/oracle-load.ts";
import { type Fault, sleepSome } from "../random.ts";

const tables = ["a", "b"];
const boundMs = 120_000;

export class KafkaPart implements AsyncDisposable {
  readonly database = "logged";
  /** Messages that were compared with the source's log. */
  messages = 0;

  private constructor(
    private readonly source: PostgresServer,
    readonly cluster: KafkaCluster,
  ) {}

  static async start(source: PostgresServer): Promise<KafkaPart> {
    const part = new KafkaPart(source, await KafkaCluster.start());
    await source.createDatabase(part.database);
    const sql = [oracleSql, ...tables.map((table) => oracleTableSql(table, 200))].join("\n");
    await source.query(sql, part.database);
    return part;
  }

  connector(source: { readonly postgres: JsonBody }): JsonBody {
    const connection = { brokers: this.cluster.bootstrap };
    const kafka = { connection, format: { native: {} }, topic_options: { replication_factor: 1 } };
    return { source: { postgres: { ...source.postgres, catalog: oracleCatalog } }, sink: { kafka } };
  }

  load(): OracleLoad {
    return oracleLoad(this.source, {
      database: this.database,
      tables,
      sessions: 1,
      pauseMs: 60,
      keys: 400,
    });
  }

  /** Nothing is written any more. Throws what is missing, doubled or out of order. */
  async expectExactlyOnce(): Promise<void> {
    const query = <R extends object>(sql: string) => this.source.query<R>(sql, this.database);
    await untilDurable(query, slotName("to-kafka"), "the broker to have all", boundMs);
    const { messages } = await checkTopics(this.cluster, query, tables);
    this.messages = messages;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.cluster[Symbol.asyncDispose]();
  }
}

export const brokerFaults: readonly Fault<{ readonly kafka: KafkaPart | null }>[] = [
  {
    name: "the broker is killed",
    run: async ({ kafka }, random) => {
      await kafka?.cluster.kill(1);
      await sleepSome(random, 0, 3_000);
      await kafka?.cluster.restart(1);
    },
  },
  {
    name: "the broker is frozen",
    run: async ({ kafka }, random) => {
      kafka?.cluster.freeze(1);
      await sleepSome(random, 500, 8_000);
      kafka?.cluster.thaw(1);
    },
  },
];
