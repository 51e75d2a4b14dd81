import { expect, test } from "bun:test";
import fc from "fast-check";
import { EventParser } from "../../console/api/event-parser.ts";

test("reads ids, names and data, and leaves comments and empty events out", () => {
  const text = ': hello\n\nid: a-1\nevent: status\ndata: {"a":1}\n\ndata: x\ndata: y\n\nevent: nothing\n\n';
  expect(new EventParser().push(text)).toEqual([
    { id: "a-1", event: "status", data: '{"a":1}' },
    { id: "a-1", event: "message", data: "x\ny" },
  ]);
});

test("finds the same events however the text is cut", () => {
  const text = "id: 1\r\nevent: task\r\ndata: one: two\r\n\r\nid: 2\ndata:no space\n\n";
  const whole = new EventParser().push(text);
  expect(whole).toHaveLength(2);
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: text.length })), (cuts) => {
      const places = [0, ...cuts.sort((a, b) => a - b), text.length];
      const parser = new EventParser();
      const found = places.slice(1).flatMap((end, index) => parser.push(text.slice(places[index], end)));
      expect(found).toEqual(whole);
    }),
  );
});

test("knows where to go on before the first event", () => {
  const parser = new EventParser();
  expect(parser.push("retry: 1000\nid: boot-7\n\n")).toEqual([]);
  expect(parser.lastEventId).toBe("boot-7");
});
