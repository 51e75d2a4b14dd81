// Replaces the state's key: nothing remains encrypted with the old one, and a crash at any moment leaves a state that
// opens.

import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { StateOptions } from "../../../src/state/open-database.ts";
import { openState } from "../../../src/state/open-state.ts";
import { Cipher } from "../../../src/state/secrets/encryption.ts";
import { keyFileName, makeNextKey } from "../../../src/state/secrets/encryption-key.ts";
import { rotateKey } from "../../../src/state/secrets/key-rotation.ts";
import { openPostgresDatabase } from "../../../src/state/server/postgres-database.ts";
import { ConnectorStore } from "../../../src/state/stores/connector-store.ts";
import { sampleConfig, storedConnector } from "../../support/api/sample-connector.ts";
import { isWholeMatrix } from "../../support/matrix.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { TcpProxy } from "../../support/servers/tcp-proxy.ts";
import { waitFor } from "../../support/wait-for.ts";

const [oneKey, otherKey] = [1, 2].map((n) => Buffer.alloc(32, n).toString("base64")) as [string, string];
let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "millrace-rotation-"));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const options = (change: Partial<StateOptions> = {}): StateOptions => ({
  databaseUrl: null,
  dataDirectory: directory,
  encryptionKey: null,
  instance: crypto.randomUUID(),
  ...change,
});
const keyFile = () => readFile(join(directory, keyFileName), "utf8");

async function begin(opened: StateOptions): Promise<void> {
  await using state = await openState(opened);
  await state.connectors.insert(storedConnector("one"));
  await state.connectors.insert({ ...storedConnector("two"), cleanup: sampleConfig("two") });
}

async function expectReadable(opened: StateOptions): Promise<void> {
  await using state = await openState(opened);
  expect((await state.connectors.find("one"))?.config).toEqual(sampleConfig("one"));
  expect((await state.connectors.find("two"))?.cleanup).toEqual(sampleConfig("two"));
}

const refusalOf = (opened: StateOptions) =>
  openState(opened).then(
    (state) => state[Symbol.asyncDispose](),
    (error: unknown) => error,
  );

test("a key file is replaced by one that only its owner may read, and the old key decrypts nothing", async () => {
  await begin(options());
  const before = await keyFile();
  expect(await rotateKey(options(), null)).toEqual({
    connectors: 2,
    keyFile: join(directory, keyFileName),
  });
  expect(await keyFile()).not.toBe(before);
  expect((await stat(join(directory, keyFileName))).mode & 0o777).toBe(0o600);
  expect((await readdir(directory)).filter((name) => name.startsWith(keyFileName))).toEqual([keyFileName]);
  await expectReadable(options());
  expect(await refusalOf(options({ encryptionKey: before.trim() }))).toMatchObject({
    code: "encryption_key_mismatch",
  });
});

test("a configured key replaces another one, also over Postgres, or a key file", async () => {
  await using server = await PostgresServer.start();
  const databaseUrl = `postgres://postgres@127.0.0.1:${server.port}/postgres`;
  await begin(options({ databaseUrl, encryptionKey: oneKey }));
  expect(await rotateKey(options({ databaseUrl, encryptionKey: oneKey }), otherKey)).toEqual({
    connectors: 2,
    keyFile: null,
  });
  await expectReadable(options({ databaseUrl, encryptionKey: otherKey }));
  await begin(options());
  await rotateKey(options(), otherKey);
  await expectReadable(options({ encryptionKey: otherKey }));
  expect(await refusalOf(options())).toMatchObject({ code: "encryption_key_mismatch" });
});

test("a lost key file is reported, and no other one replaces it", async () => {
  await begin(options());
  const key = await keyFile();
  await rm(join(directory, keyFileName));
  for (let i = 0; i < 2; i++)
    expect(await refusalOf(options())).toMatchObject({ code: "encryption_key_mismatch" });
  const rotation = rotateKey(options(), null).catch((error: unknown) => error);
  expect(await rotation).toMatchObject({ code: "encryption_key_mismatch" });
  expect((await readdir(directory)).filter((name) => name.startsWith(keyFileName))).toEqual([]);
  await writeFile(join(directory, keyFileName), key, { mode: 0o600 });
  await expectReadable(options());
});

test("a rotation that was interrupted during encryption did not happen; one interrupted afterwards, before the file is replaced, is finished", async () => {
  await begin(options());
  const before = await keyFile();
  await makeNextKey(directory);
  await expectReadable(options());
  expect(await keyFile()).toBe(before);
  expect((await readdir(directory)).filter((name) => name.startsWith(keyFileName))).toEqual([keyFileName]);

  const next = Buffer.from(await makeNextKey(directory)).toString("base64");
  await interruptAfterEncryption(next);
  await expectReadable(options());
  expect((await keyFile()).trim()).toBe(next);

  // The next rotation first finishes the interrupted one.
  await interruptAfterEncryption(Buffer.from(await makeNextKey(directory)).toString("base64"));
  expect(await rotateKey(options(), null)).toMatchObject({ connectors: 2 });
  await expectReadable(options());
});

/** Everything is encrypted with the draft next to the key file, which is unchanged. */
async function interruptAfterEncryption(next: string): Promise<void> {
  const [now, path] = [await keyFile(), join(directory, `${keyFileName}.next`)];
  const draft = await readFile(path);
  await rm(path);
  await rotateKey(options({ encryptionKey: now.trim() }), next);
  await writeFile(path, draft, { mode: 0o600 });
}

test("a draft that a crash has left before it replaced the key file is removed at the next start", async () => {
  await begin(options());
  const left = ["", ".next"].map((kind) => join(directory, `${keyFileName}${kind}.${crypto.randomUUID()}`));
  for (const path of left) await writeFile(path, await keyFile(), { mode: 0o600 });
  await expectReadable(options());
  expect((await readdir(directory)).filter((name) => name.startsWith(keyFileName))).toEqual([keyFileName]);
  for (const path of left) await writeFile(path, await keyFile(), { mode: 0o600 });
  await rotateKey(options(), null);
  expect((await readdir(directory)).filter((name) => name.startsWith(keyFileName))).toEqual([keyFileName]);
});

test("a running service is not disturbed, and a wrong key changes nothing", async () => {
  await begin(options());
  {
    await using _state = await openState(options());
    expect(await rotateKey(options(), null).catch((error: unknown) => error)).toMatchObject({
      code: "invalid_setting",
    });
  }
  const wrong = rotateKey(options({ encryptionKey: otherKey }), oneKey);
  expect(await wrong.catch((error: unknown) => error)).toMatchObject({ code: "encryption_key_mismatch" });
  const missing = rotateKey(options({ encryptionKey: otherKey }), null);
  expect(String(await missing.catch((error: unknown) => error))).toContain("MILLRACE_NEW_ENCRYPTION_KEY");
  const none = rotateKey(options(), "planted");
  expect(String(await none.catch((error: unknown) => error))).not.toContain("planted");
  await expectReadable(options());
});

test("over Postgres no service may work on the state, and none begins to while the key changes", async () => {
  await using server = await PostgresServer.start();
  const databaseUrl = `postgres://postgres@127.0.0.1:${server.port}/postgres`;
  const withKey = (encryptionKey: string) => options({ databaseUrl, encryptionKey });
  await begin(withKey(oneKey));
  const rotate = () => rotateKey(withKey(oneKey), otherKey).catch((error: unknown) => error);
  {
    await using state = await openState(withKey(oneKey));
    expect(await rotate()).toMatchObject({ code: "invalid_setting" });
    const replica = {
      id: "pod-0",
      instance: state.shared!.instance,
      host: "a",
      version: "1",
      weight: 1,
      leaseMs: 60_000,
      startedAt: new Date(),
    };
    await state.shared!.leases.join(replica);
  }
  // It has died, and its session with it: it may still be about to write.
  expect(String(await rotate())).toContain("pod-0");
  await server.query("update millrace.replicas set seen_at = seen_at - interval '61 s'");
  await using slow = await server.connect();
  await slow.query("begin; select from millrace.connectors for update");
  const rotation = rotateKey(withKey(oneKey), otherKey);
  await waitFor("the rotation waits", async () => {
    const rows = await server.query("select from pg_locks where not granted");
    return rows.length > 0;
  });
  const late = refusalOf(withKey(oneKey));
  await Bun.sleep(500);
  await slow.query("commit");
  expect(await rotation).toMatchObject({ connectors: 2 });
  expect(await late).toMatchObject({ code: "encryption_key_mismatch" });
  await expectReadable(withKey(otherKey));
});

test("over Postgres a replica that was cut off while the key changed stores nothing when it is back, and stops", async () => {
  await using server = await PostgresServer.start();
  await using proxy = await TcpProxy.start(server.port);
  const withKey = (encryptionKey: string, { port }: { readonly port: number } = server) =>
    options({ databaseUrl: `postgres://postgres@127.0.0.1:${port}/postgres`, encryptionKey });
  await begin(withKey(oneKey));
  await using old = await openState(withKey(oneKey, proxy));
  proxy.refuse(true);
  proxy.cut();
  await waitFor("the key changes", () =>
    rotateKey(withKey(oneKey), otherKey).then(
      () => true,
      () => false,
    ),
  );
  proxy.refuse(false);
  expect(
    await old.connectors.insert(storedConnector("three")).catch((error: unknown) => error),
  ).toMatchObject({ code: "encryption_key_mismatch" });
  await waitFor("it stops", () => old.lost.aborted);
  expect(old.lost.reason).toMatchObject({ code: "encryption_key_mismatch" });
  await expectReadable(withKey(otherKey));
});

test("over Postgres what is stored while the key changes is stored before it, or not at all", async () => {
  await using server = await PostgresServer.start();
  const databaseUrl = `postgres://postgres@127.0.0.1:${server.port}/postgres`;
  const withKey = (encryptionKey: string) => options({ databaseUrl, encryptionKey });
  await begin(withKey(oneKey));
  await using open = await openPostgresDatabase(databaseUrl, { instance: crypto.randomUUID() });
  const old = new ConnectorStore(open.database, new Cipher(Buffer.from(oneKey, "base64")));
  await using slow = await server.connect();
  await slow.query("begin; select from millrace.connectors for update");
  const rotation = rotateKey(withKey(oneKey), otherKey);
  await waitFor("the rotation waits", async () => {
    const rows = await server.query("select from pg_locks where not granted");
    return rows.length > 0;
  });
  const { given } = storedConnector("one");
  const late = [
    old.insert(storedConnector("three")),
    old.update("one", { given }),
    old.change("two", () => ({ given })),
  ];
  const settled = Promise.allSettled(late);
  await Promise.race([settled, Bun.sleep(500)]);
  await slow.query("commit");
  expect(await rotation).toMatchObject({ connectors: 2 });
  const refused = { status: "rejected", reason: { code: "encryption_key_mismatch" } };
  expect(await settled).toMatchObject([refused, refused, refused]);
  await expectReadable(withKey(otherKey));
});

describe("of two rotations over Postgres with a key file", () => {
  const names = async () => (await readdir(directory)).filter((name) => name.startsWith(keyFileName)).sort();

  test("the second is refused, also when the first has not committed yet, and no key is lost", async () => {
    await using server = await PostgresServer.start();
    const databaseUrl = `postgres://postgres@127.0.0.1:${server.port}/postgres`;
    await begin(options({ databaseUrl }));
    await using slow = await server.connect();
    await slow.query("begin; select from millrace.connectors for update");
    const first = rotateKey(options({ databaseUrl }), null);
    first.catch(() => {});
    await waitFor("the first has a key", async () => (await names()).includes(`${keyFileName}.next`));
    const next = await readFile(join(directory, `${keyFileName}.next`), "utf8");
    const second = rotateKey(options({ databaseUrl }), null).catch((error: unknown) => error);
    // One that waits for the first.
    await Promise.race([second, Bun.sleep(1_000)]);
    await slow.query("commit");
    expect(await second).toMatchObject({ code: "invalid_setting" });
    expect(String(await second)).toContain("another rotate-key");
    expect(await first).toMatchObject({ connectors: 2 });
    expect(await keyFile()).toBe(next);
    expect(await names()).toEqual([keyFileName]);
    await expectReadable(options({ databaseUrl }));
  });

  test("the second may begin before the first has replaced the key file", async () => {
    await using server = await PostgresServer.start();
    const databaseUrl = `postgres://postgres@127.0.0.1:${server.port}/postgres`;
    await begin(options({ databaseUrl }));
    await using proxy = await TcpProxy.start(server.port);
    const held = proxy.holdAt("pg_advisory_xact_lock_shared");
    const viaProxy = `postgres://postgres@127.0.0.1:${proxy.port}/postgres`;
    const first = rotateKey(options({ databaseUrl: viaProxy }), null);
    await held;
    await using slow = await server.connect();
    await slow.query("begin; select from millrace.connectors for update");
    const begun = await readFile(join(directory, `${keyFileName}.next`), "utf8");
    const second = rotateKey(options({ databaseUrl }), null);
    await waitFor("the second has a key", async () => {
      const next = await readFile(join(directory, `${keyFileName}.next`), "utf8").catch(() => begun);
      return next !== begun;
    });
    proxy.resume();
    await Bun.sleep(300);
    // The first waits: what is in the directory now is the second's, which may still fail.
    expect(await names()).toEqual([keyFileName, `${keyFileName}.next`]);
    expect(await keyFile()).toBe(begun);
    await slow.query("commit");
    expect(await Promise.all([first, second])).toMatchObject([{ connectors: 2 }, { connectors: 2 }]);
    expect(await names()).toEqual([keyFileName]);
    await expectReadable(options({ databaseUrl }));
  });
});

test("a first start whose answer is lost keeps the key that the state may have got", async () => {
  await using server = await PostgresServer.start();
  await using proxy = await TcpProxy.start(server.port);
  const databaseUrl = `postgres://postgres@127.0.0.1:${proxy.port}/postgres`;
  const lost = proxy.loseReply("encryption_key_check", "INSERT 0 1");
  expect(await refusalOf(options({ databaseUrl }))).toMatchObject({ code: "state_unavailable" });
  await lost;
  await begin(options({ databaseUrl }));
  await expectReadable(options({ databaseUrl }));
});

test("the command reports what it has done, and the state opens with one of the two keys wherever it is killed", async () => {
  await begin(options());
  const main = join(import.meta.dir, "..", "..", "..", "src", "main.ts");
  const rotate = () =>
    Bun.spawn([process.execPath, main, "rotate-key", "--data-dir", directory], {
      stdout: "pipe",
      stderr: "pipe",
      env: { PATH: process.env.PATH ?? "" },
    });
  const begunAt = performance.now();
  const rotation = rotate();
  expect(await new Response(rotation.stdout).text()).toContain("The secrets of 2 connectors");
  expect(await rotation.exited).toBe(0);
  const lastsMs = performance.now() - begunAt;
  for (let part = 1; part <= 8; part += isWholeMatrix ? 1 : 2) {
    const child = rotate();
    await Bun.sleep(lastsMs * (0.4 + part / 14));
    child.kill("SIGKILL");
    await child.exited;
    await expectReadable(options());
  }
  expect((await readdir(directory)).filter((name) => name.startsWith(keyFileName))).toEqual([keyFileName]);
});
