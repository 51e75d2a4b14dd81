// Certificates and keys in files of this machine.

import { expect, test } from "bun:test";
import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { tlsOf } from "../../../../src/sink/kafka/client/kafka-connection.ts";

const tlsFrom = (ssl_ca_location: string) => tlsOf({ protocol: "Ssl", ssl_ca_location });

async function directory(stack: AsyncDisposableStack): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), "millrace-test-"));
  stack.defer(() => rm(made, { recursive: true }));
  return made;
}

test("a file is read, also by way of a link", async () => {
  await using stack = new AsyncDisposableStack();
  const path = join(await directory(stack), "ca.pem");
  await writeFile(path, "a certificate");
  await symlink(path, `${path}.link`);
  expect(await tlsFrom(path)).toMatchObject({ ca: "a certificate" });
  expect(await tlsFrom(`${path}.link`)).toMatchObject({ ca: "a certificate" });
});

test("what is no file of a certificate's size is refused at once", async () => {
  await using stack = new AsyncDisposableStack();
  const path = join(await directory(stack), "ca.pem");
  const refusal = (at: string, why: RegExp) =>
    expect(tlsFrom(at)).rejects.toMatchObject({
      code: "sink_unreachable",
      message: expect.stringMatching(why),
    });
  expect(Bun.spawnSync(["mkfifo", `${path}.pipe`]).exitCode).toBe(0);
  for (const at of ["/dev/zero", `${path}.pipe`, tmpdir()])
    await refusal(at, /^ssl_ca_location: the file .* cannot be read \(it is no regular file\)\./);
  await writeFile(path, new Uint8Array(2 ** 20 + 1));
  await refusal(path, /cannot be read \(it has more than 1 MB\)/);
  await refusal(`${path}.missing`, /cannot be read \(ENOENT\)/);
});
