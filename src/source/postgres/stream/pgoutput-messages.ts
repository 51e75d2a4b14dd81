// Reads the rare messages of the pgoutput protocol: relations, truncates and logical messages. pgoutput-decoder.ts
// reads the frequent ones in place.
// https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html

import { type Lsn, lsn } from "../../../change/lsn.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";

export interface RelationMessage {
  readonly oid: number;
  readonly schema: string;
  readonly name: string;
  /** `d` default, `n` nothing, `f` full, `i` index. */
  readonly identity: string;
  readonly columns: readonly RelationMessageColumn[];
}

export interface RelationMessageColumn {
  readonly name: string;
  readonly typeOid: number;
  readonly typmod: number;
  /** Part of the replica identity. Under identity full every column is. */
  readonly inIdentity: boolean;
}

/** Message `R`, from its first byte behind the tag. The schema `pg_catalog` is sent as an empty string. */
export function readRelationMessage(message: Buffer): RelationMessage {
  const reader = new Reader(message, 1);
  const oid = reader.uint32();
  const schema = reader.text() || "pg_catalog";
  const name = reader.text();
  const identity = String.fromCharCode(reader.uint8());
  const count = reader.uint16();
  const columns: RelationMessageColumn[] = [];
  for (let i = 0; i < count; i++) {
    const inIdentity = (reader.uint8() & 1) === 1;
    columns.push({ name: reader.text(), typeOid: reader.uint32(), typmod: reader.int32(), inIdentity });
  }
  return { oid, schema, name, identity, columns };
}

/** Message `T`: the tables of one TRUNCATE. Bit 1 of `options` is CASCADE, bit 2 RESTART IDENTITY. */
export function readTruncateMessage(message: Buffer): { options: number; oids: readonly number[] } {
  const reader = new Reader(message, 1);
  const count = reader.uint32();
  const options = reader.uint8();
  return { options, oids: Array.from({ length: count }, () => reader.uint32()) };
}

/** Message `M` with this prefix; null for another prefix. `lsn` is the start of the message's WAL record. */
export function readLogicalMessage(message: Buffer, prefix: string): { lsn: Lsn; content: string } | null {
  const reader = new Reader(message, 2);
  const at = lsn(reader.uint64());
  if (reader.text() !== prefix) return null;
  const length = reader.uint32();
  return { lsn: at, content: reader.bytes(length).toString("utf8") };
}

class Reader {
  constructor(
    private readonly buffer: Buffer,
    private offset: number,
  ) {}

  uint8(): number {
    return this.buffer.readUInt8(this.advance(1));
  }

  uint16(): number {
    return this.buffer.readUInt16BE(this.advance(2));
  }

  uint32(): number {
    return this.buffer.readUInt32BE(this.advance(4));
  }

  int32(): number {
    return this.buffer.readInt32BE(this.advance(4));
  }

  uint64(): bigint {
    return this.buffer.readBigUInt64BE(this.advance(8));
  }

  bytes(length: number): Buffer {
    const at = this.advance(length);
    return this.buffer.subarray(at, at + length);
  }

  text(): string {
    const end = this.buffer.indexOf(0, this.offset);
    if (end < 0) throw new MillraceError("protocol_violation", "pgoutput: a text without its end");
    const value = this.buffer.toString("utf8", this.offset, end);
    this.offset = end + 1;
    return value;
  }

  private advance(bytes: number): number {
    const at = this.offset;
    if (at + bytes > this.buffer.length) {
      throw new MillraceError("protocol_violation", "pgoutput: a message is shorter than it says");
    }
    this.offset = at + bytes;
    return at;
  }
}
