// What a broken or hostile broker answers ends that request, and neither holds the thread nor fills the memory.

import { expect, test } from "bun:test";
import { createServer } from "node:net";
import { Connection, metadataV9, Reader } from "@platformatic/kafka";

const zeros = (bytes: number) => Buffer.alloc(bytes);
/** 2^31 - 2 of something. */
const countless = Buffer.from([0xff, 0xff, 0xff, 0xff, 0x07]);

/** A broker's name whose length, -15, would lead back to where the broker began. */
const brokerWithoutEnd = Buffer.concat([
  ...[zeros(4), countless, zeros(4), Buffer.from([1]), zeros(6)],
  ...[zeros(4), Buffer.from([0xf2, 0xff, 0xff, 0xff, 0x0f]), zeros(6)],
]);

/** Of a processor's time: it takes a fraction of one, and a busy machine gives it slowly. */
const mostSeconds = 5;

test("a length that leads back, or past the end, ends the reading", async () => {
  // In a process of its own: a loop without end could not be ended here.
  const script = `
    import { metadataV9, Reader } from "@platformatic/kafka";
    const bytes = Buffer.from("${brokerWithoutEnd.toString("hex")}", "hex");
    try { metadataV9.parseResponse(1, 3, 9, Reader.from(bytes)); } catch (error) { console.log(error.name); }
  `;
  const inBounds = ["sh", "-c", `ulimit -t ${mostSeconds}; exec "$0" "$@"`];
  const child = Bun.spawn([...inBounds, process.execPath, "--smol", "-e", script], {
    stdout: "pipe",
    cwd: import.meta.dir,
  });
  expect((await new Response(child.stdout).text()).trim()).toBe("RangeError");
});

const readings: readonly (readonly [string, (reader: Reader) => unknown, Buffer])[] = [
  ["text", (reader) => reader.readString(), Buffer.from([9, 65])],
  ["bytes", (reader) => reader.readBytes(false), Buffer.from([0, 0, 1, 0, 65])],
  ["a list", (reader) => reader.readArray((each) => each.readInt8()), Buffer.concat([countless, zeros(3)])],
  ["fields", (reader) => reader.readTaggedFields(), Buffer.from([1, 0, 0xfa, 0xff, 0xff, 0xff, 0x0f])],
  ["a step back", (reader) => reader.skip(-6), zeros(12)],
];
test.each(readings)("a length that %s does not have is refused", (_, read, bytes) => {
  expect(() => read(Reader.from(bytes))).toThrow(RangeError);
});

test("what an answer has is read", () => {
  const reader = Reader.from(Buffer.from([3, 65, 66, 1, 3, 7, 0, 8, 0]));
  expect([reader.readString(), reader.readString(), reader.readArray((each) => each.readInt8())]).toEqual([
    ...["AB", "", [7, 8]],
  ]);
});

test.each([-1, 0, 3, 2_000_000_000])("an answer of %d bytes ends the connection", async (size) => {
  const announced = Buffer.alloc(8);
  announced.writeInt32BE(size);
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.on("data", () => socket.write(announced));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const port = typeof address === "object" ? (address?.port ?? 0) : 0;
  const connection = new Connection("test", { connectTimeout: 5_000, requestTimeout: 30_000 });
  connection.on("error", () => {});
  await connection.connect("127.0.0.1", port);
  const asked = new Promise((_, reject) =>
    metadataV9.api(connection, [], false, false, false, (error: unknown) => reject(error)),
  );
  await expect(asked).rejects.toThrow();
  server.close();
});
