// Answers as bytes: what they say, however they are cut on their way.

import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { ResponseReader, type ResponseState } from "../../../src/sink/http/response-reader.ts";

interface Read {
  readonly status: number | undefined;
  readonly state: ResponseState;
  readonly retryAfter: string | null | undefined;
}

/** The answer is over with the last piece, or goes on behind it. */
function read(...pieces: readonly string[]): Read {
  const reader = new ResponseReader();
  let state: ResponseState = "unfinished";
  for (const piece of pieces) {
    if (state !== "unfinished") throw new Error(`${state} before ${JSON.stringify(piece)}`);
    state = reader.take(Buffer.from(piece, "latin1"));
  }
  return { status: reader.head?.status, state, retryAfter: reader.head?.retryAfter };
}

const head = (...lines: readonly string[]) => `${lines.join("\r\n")}\r\n\r\n`;

describe("the connection can take the next request behind", () => {
  test.each([
    ["a length", `${head("HTTP/1.1 200 OK", "Content-Length: 2")}ok`],
    ["no body", head("HTTP/1.1 204 No Content")],
    ["no body and no reason", head("HTTP/1.1 304")],
    ["a length of nothing", head("HTTP/1.1 500 Oh", "content-length:0 ")],
    ["one length said twice", `${head("HTTP/1.1 200 OK", "Content-Length: 2", "Content-Length: 2")}ok`],
    ["chunks", `${head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked")}a;x=1\r\n0123456789\r\n00\r\n\r\n`],
    [
      "chunks and a trailer",
      `${head("HTTP/1.1 200 OK", "TE: x", "Transfer-Encoding: gzip, Chunked")}1\r\nx\r\n0\r\nA: b\r\n\r\n`,
    ],
    ["lines that end alone", "HTTP/1.1 200 OK\nContent-Length: 2\n\nok"],
    [
      "words that it goes on",
      `${head("HTTP/1.1 100 Continue")}${head("HTTP/1.1 103 Hints", "Link: </a>")}${head("HTTP/1.1 204 x")}`,
    ],
    ["HTTP/1.0 that keeps it", `${head("HTTP/1.0 200 OK", "Connection: Keep-Alive", "Content-Length: 1")}x`],
  ])("%s, however it is cut", (_, answer) => {
    const whole = read(answer);
    expect(whole.state).toBe("kept");
    expect(read(...answer)).toEqual(whole);
    fc.assert(
      fc.property(fc.nat(answer.length - 1), (at) => {
        expect(read(answer.slice(0, at), answer.slice(at))).toEqual(whole);
      }),
    );
  });
});

describe("it is read to its end, behind which the receiver closes", () => {
  test.each([
    ["a word that it does", head("HTTP/1.1 200 OK", "Connection: x, CLOSE", "Content-Length: 0")],
    ["HTTP/1.0", `${head("HTTP/1.0 200 OK", "Content-Length: 2")}ok`],
  ])("%s", (_, answer) => {
    expect(read(answer)).toMatchObject({ status: 200, state: "closing" });
  });
});

describe("the status stands, and what comes behind is not read", () => {
  test.each([
    ["bytes that nobody asked for", `${head("HTTP/1.1 200 OK", "Content-Length: 2")}ok!`],
    ["another answer", `${head("HTTP/1.1 200 OK", "Content-Length: 0")}${head("HTTP/1.1 500 No")}`],
    ["two lengths", head("HTTP/1.1 200 OK", "Content-Length: 2", "Content-Length: 3")],
    ["a length that is none", head("HTTP/1.1 200 OK", "Content-Length: -2")],
    ["a length and chunks", head("HTTP/1.1 200 OK", "Content-Length: 2", "Transfer-Encoding: chunked")],
    ["a length beyond what is read", head("HTTP/1.1 200 OK", "Content-Length: 65537")],
    [
      "a chunk beyond what is read",
      `${head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked")}fffffffff\r\n${"x".repeat(70_000)}`,
    ],
    ["a blank before a colon", head("HTTP/1.1 200 OK", "Content-Length : 2")],
    ["a line that goes on", head("HTTP/1.1 200 OK", "Content-Length:", " 2")],
    ["a line that is no header", head("HTTP/1.1 200 OK", "Content-Length 2")],
    ["a chunk without a size", `${head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked")}\r\n\r\n`],
    ["a chunk whose size is none", `${head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked")}0x40\r\n\r\n`],
    [
      "a chunk without its end",
      `${head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked")}2\r\nokay\r\n0\r\n\r\n`,
    ],
    ["a body without an end that is read", `${head("HTTP/1.1 200 OK")}${"x".repeat(70_000)}`],
    [
      "another protocol",
      `${head("HTTP/1.1 200 Switching", "Connection: upgrade", "Upgrade: h2c")}${"x".repeat(70_000)}`,
    ],
  ])("%s", (_, answer) => {
    expect(read(answer)).toMatchObject({ status: 200, state: "cut" });
  });
});

test("a body without a length lasts as long as the connection, and the status stands before", () => {
  expect(read(`${head("HTTP/1.1 200 OK")}ok`, "ok")).toMatchObject({ status: 200, state: "unfinished" });
});

describe("no answer", () => {
  test.each([
    ["another protocol", "SSH-2.0-OpenSSH_9.6\r\n\r\n"],
    ["HTTP/2", head("HTTP/2 200")],
    ["no status", head("HTTP/1.1 OK")],
    ["a head without an end", `HTTP/1.1 200 OK\r\n${"A: b\r\n".repeat(20_000)}`],
    ["words without an end that it goes on", head("HTTP/1.1 100 Continue").repeat(5_000)],
  ])("%s", (_, answer) => {
    expect(read(answer)).toMatchObject({ status: undefined, state: "faulty" });
  });

  test("a connection that ends before the head does", () => {
    const reader = new ResponseReader();
    expect(reader.isUntouched).toBe(true);
    expect(reader.take(Buffer.from("HTTP/1.1 200"))).toBe("unfinished");
    expect([reader.head, reader.isUntouched]).toEqual([null, false]);
  });
});

test("Retry-After is read, whatever its case", () => {
  expect(read(head("HTTP/1.1 503 Busy", "RETRY-AFTER:  7 ", "Content-Length: 0")).retryAfter).toBe("7");
  expect(read(head("HTTP/1.1 503 Busy", "Content-Length: 0")).retryAfter).toBeNull();
});

describe("whether the body is there to its end", () => {
  const content = (answer: string, bodyBytes?: number) => {
    const reader = new ResponseReader(bodyBytes);
    reader.take(Buffer.from(answer, "latin1"));
    return [reader.content.length, reader.isContentCut];
  };
  const long = `${head("HTTP/1.1 400 No", "Content-Length: 5000")}${"x".repeat(5_000)}`;
  test.each([
    ["a length", `${head("HTTP/1.1 400 No", "Content-Length: 2")}no`, 0, 2, false],
    [
      "a length, and the connection broke off",
      `${head("HTTP/1.1 400 No", "Content-Length: 9")}no`,
      0,
      2,
      true,
    ],
    ["chunks", `${head("HTTP/1.1 400 No", "Transfer-Encoding: chunked")}2\r\nno\r\n0\r\n\r\n`, 0, 2, false],
    [
      "the last chunk is missing",
      `${head("HTTP/1.1 400 No", "Transfer-Encoding: chunked")}2\r\nno\r\n`,
      0,
      2,
      true,
    ],
    ["the connection's end", `${head("HTTP/1.1 400 No")}no`, 0, 2, true],
    ["more than is kept for people", long, 0, 4096, true],
    ["less than is asked for", long, 5_000, 5_000, false],
    ["more than is asked for", long, 4_999, 4_999, true],
  ])("%s", (_, answer, bodyBytes, kept, isCut) => {
    expect(content(answer, bodyBytes)).toEqual([kept, isCut]);
  });
});
