// The record is read from whoever leads its partition, though a broker that stood still does not know yet that it leads no more.

import { expect, test } from "bun:test";
import { createServer, type Socket } from "node:net";
import { Writer } from "@platformatic/kafka";
import { AddressResolver } from "../../../../src/connection/egress.ts";
import {
  checkpointTopic,
  findCheckpoint,
  utf8,
} from "../../../../src/sink/kafka/checkpoint/checkpoint-topic.ts";
import { Cluster } from "../../../../src/sink/kafka/client/cluster.ts";
import { isPassing } from "../../../../src/sink/kafka/client/kafka-error.ts";
import { RecordBatch } from "../../../../src/sink/kafka/client/record-batch.ts";
import { plainHeaders } from "../../../../src/sink/kafka/message-headers.ts";

const notLeader = 6;
const earliest = Buffer.alloc(8);
earliest.writeBigInt64BE(-2n);
const nobody = { producerId: -1n, epoch: -1, sequence: -1, isTransactional: false };

/** As a broker stores a message of connector `c`; null: one without content. */
function stored(offset: number, value: string | null): Buffer {
  const batch = new RecordBatch();
  batch.add(utf8(value === null ? "" : "c"), value === null ? null : utf8(value), plainHeaders([]));
  const bytes = batch.finish(nobody, "none", 0);
  bytes.writeBigInt64BE(BigInt(offset), 0);
  return bytes;
}

/** Of one partition, with two brokers. */
interface Partition {
  /** Whom a broker takes for the leader. */
  readonly leaderFor: Map<number, number>;
  readonly leader: number;
  /** What each broker has. */
  readonly logs: ReadonlyMap<number, (string | null)[]>;
  readonly ports: Map<number, number>;
}

const answers: Readonly<Record<number, (partition: Partition, broker: number, request: Buffer) => Writer>> = {
  // Produce: a broker that is no leader any more learns of it.
  0: (partition, broker) => {
    const log = partition.logs.get(broker)!;
    const isTaken = broker === partition.leader;
    partition.leaderFor.set(broker, partition.leader);
    const offset = isTaken ? log.push(null) - 1 : -1;
    return Writer.create()
      .appendArray([checkpointTopic], (topics, name) => {
        topics.appendString(name).appendArray([0], (partitions, index) => {
          partitions.appendInt32(index).appendInt16(isTaken ? 0 : notLeader);
          partitions.appendInt64(BigInt(offset)).appendInt64(-1n).appendInt64(0n);
          partitions.appendArray([], () => undefined).appendString(null);
        });
      })
      .appendInt32(0);
  },
  // Fetch: all of it.
  1: ({ logs }, broker) => {
    const log = logs.get(broker)!;
    const records = Buffer.concat(log.map((value, offset) => stored(offset, value)));
    return Writer.create()
      .appendInt32(0)
      .appendInt16(0)
      .appendInt32(0)
      .appendArray([checkpointTopic], (topics, name) => {
        topics.appendString(name).appendArray([0], (partitions, index) => {
          const end = BigInt(log.length);
          partitions.appendInt32(index).appendInt16(0).appendInt64(end).appendInt64(end).appendInt64(0n);
          partitions.appendArray(null, () => undefined).appendInt32(-1);
          partitions.appendUnsignedVarInt(records.length + 1).append(records);
        });
      });
  },
  // ListOffsets: the beginning, or the end.
  2: ({ logs }, broker, request) => {
    const offset = request.includes(earliest) ? 0 : logs.get(broker)!.length;
    return Writer.create()
      .appendInt32(0)
      .appendArray([checkpointTopic], (topics, name) => {
        topics.appendString(name).appendArray([0], (partitions, index) => {
          partitions.appendInt32(index).appendInt16(0).appendInt64(-1n);
          partitions.appendInt64(BigInt(offset)).appendInt32(0);
        });
      });
  },
  // Metadata.
  3: ({ leaderFor, ports }, broker) =>
    Writer.create()
      .appendInt32(0)
      .appendArray([...ports], (w, [id, port]) => {
        w.appendInt32(id).appendString("127.0.0.1").appendInt32(port).appendString(null);
      })
      .appendString("cluster")
      .appendInt32(1)
      .appendArray([checkpointTopic], (topics, name) => {
        topics.appendInt16(0).appendString(name).appendBoolean(false);
        topics.appendArray([0], (partitions, index) => {
          partitions.appendInt16(0).appendInt32(index).appendInt32(leaderFor.get(broker)!).appendInt32(0);
          for (let i = 0; i < 3; i++) partitions.appendArray([], () => undefined, true, false);
        });
        topics.appendInt32(0);
      })
      .appendInt32(0),
};

async function broker(stack: AsyncDisposableStack, id: number, partition: Partition): Promise<void> {
  const server = createServer((socket: Socket) => {
    socket.on("error", () => undefined);
    socket.on("data", (request: Buffer) => {
      const answer = answers[request.readInt16BE(4)]!(partition, id, request);
      answer.appendTaggedFields();
      const head = Buffer.alloc(9);
      head.writeInt32BE(answer.length + 5, 0);
      head.writeInt32BE(request.readInt32BE(8), 4);
      socket.write(Buffer.concat([head, answer.buffer]));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  stack.defer(() => void server.close());
  partition.ports.set(id, (server.address() as { port: number }).port);
}

test("a broker that has missed that it leads no more is not asked for the record", async () => {
  await using stack = new AsyncDisposableStack();
  const partition: Partition = {
    leaderFor: new Map([[1, 1]]),
    leader: 2,
    ports: new Map(),
    logs: new Map<number, (string | null)[]>([
      [1, ["older"]],
      [2, ["older", "newer"]],
    ]),
  };
  await broker(stack, 1, partition);
  await broker(stack, 2, partition);
  const cluster = new Cluster({
    brokers: [`127.0.0.1:${partition.ports.get(1)}`],
    clientId: "test",
    tls: null,
    sasl: null,
    connectTimeoutMs: 2_000,
    requestTimeoutMs: 3_000,
    metadataAgeMs: 60_000,
    monotonic: () => performance.now(),
    resolver: new AddressResolver("default"),
  });
  stack.defer(() => cluster.close());
  const find = async (): Promise<string | undefined> => {
    try {
      return (await findCheckpoint(cluster, "c", 1)).stored?.record.text;
    } catch (error) {
      expect(isPassing(error)).toBeTrue();
      cluster.forgetRoles();
      return await find();
    }
  };
  expect(await find()).toBe("newer");
});
