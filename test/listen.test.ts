// Why the service cannot listen: what is said is what the system says, and whether somebody answers there.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { listenFailure } from "../src/listen.ts";

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "millrace-test-"));
});
afterAll(() => rm(directory, { recursive: true, force: true }));

async function serve(host: string, port: number): Promise<string> {
  const child = Bun.spawn(
    [
      ...[process.execPath, join(import.meta.dir, "..", "src", "main.ts"), "serve", "--host", host],
      ...["--port", String(port), "--data-dir", join(directory, "data")],
    ],
    {
      cwd: directory,
      stdout: "ignore",
      stderr: "pipe",
      env: { PATH: process.env.PATH ?? "", HOME: directory, MILLRACE_ALLOW_ANONYMOUS: "1" },
    },
  );
  const errors = await new Response(child.stderr).text();
  expect(await child.exited).toBe(1);
  return errors;
}

async function listening(): Promise<{ server: Server; port: number }> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  return { server, port: typeof address === "object" && address ? address.port : 0 };
}

test("another process listens there", async () => {
  const { server, port } = await listening();
  expect(await serve("127.0.0.1", port)).toContain(
    `Cannot listen on http://127.0.0.1:${port}: another process listens on port ${port} (EADDRINUSE). End it, or set another port`,
  );
  server.close();
});

test("the port is the own end of somebody's connection: nobody is said to listen", async () => {
  const { server, port } = await listening();
  const client = await new Promise<Socket>((resolve) => {
    const socket = connect(port, "127.0.0.1", () => resolve(socket));
  });
  const own = client.localPort ?? 0;
  const errors = await serve("127.0.0.1", own);
  expect(errors).toContain(`port ${own} of 127.0.0.1 is taken, and nothing answers there (EADDRINUSE)`);
  expect(errors).toContain(`ss -tanp 'sport = :${own}'`);
  client.destroy();
  server.close();
});

test("an address that the machine does not have", async () => {
  expect(await serve("192.0.2.1", 0)).toContain("this machine has no address 192.0.2.1 (EADDRNOTAVAIL)");
});

test("a port that needs a privilege, a name that is none, and anything else", () => {
  const at = { host: "there", port: 80 };
  expect(listenFailure("EACCES", null, at, false)).toContain("port 80 (EACCES)");
  expect(listenFailure("EINVAL", null, at, false)).toContain("there is no address");
  expect(listenFailure("EIO", new Error("It broke"), at, false)).toBe(
    "It broke (EIO). See --host and --port.",
  );
});
