import { describe, expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import { newSshKeyPair } from "../../../src/api/routes/ssh-key-pair.ts";
import { privateKeyProblem } from "../../../src/connector/config/private-key.ts";
import { bringKey } from "../../support/servers/ssh-keys.ts";

const own = newSshKeyPair().private_key;

describe("usable keys", () => {
  test.each([
    ["one of ours", own],
    ["Ed25519", bringKey("ed25519").privateKey],
    ["RSA", bringKey("rsa").privateKey],
    ["ECDSA", bringKey("ecdsa").privateKey],
    ["with line breaks of Windows", own.replaceAll("\n", "\r\n")],
    ["without a last line break", own.trim()],
    ["with blank lines around it", `\n  \n${own}\n\n`],
    ["RSA as older versions wrote it", rsaPem()],
  ])("%s", (_, text) => {
    expect(privateKeyProblem(text)).toBeNull();
  });
});

describe("unusable keys", () => {
  const lines = own.split("\n");
  test.each([
    ["nothing", "", "expected a private key"],
    ["another text", "hunter2", "expected a private key"],
    ["the public half", newSshKeyPair().public_key, "expected a private key"],
    ["Ed25519 under a passphrase", bringKey("ed25519", "sesame").privateKey, "passphrase"],
    ["RSA under a passphrase", bringKey("rsa", "sesame").privateKey, "passphrase"],
    ["RSA of old under a passphrase", rsaPem("sesame"), "passphrase"],
    ["a line is missing", [...lines.slice(0, 3), ...lines.slice(4)].join("\n"), "damaged"],
    ["the end is missing", lines.slice(0, 3).join("\n"), "expected a private key"],
    ["a letter that is none", own.replace("b3Bl", "b3B!"), "damaged"],
    ["another beginning", own.replace("b3Bl", "AAAA"), "damaged"],
    ["of another program", own.replaceAll("OPENSSH", "PGP"), "expected a private key"],
  ])("%s", (_, text, problem) => {
    expect(privateKeyProblem(text)).toContain(problem);
  });
});

function rsaPem(passphrase?: string): string {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const protection = passphrase === undefined ? {} : { cipher: "aes-128-cbc", passphrase };
  return privateKey.export({ type: "pkcs1", format: "pem", ...protection }).toString();
}
