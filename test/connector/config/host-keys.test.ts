import { describe, expect, test } from "bun:test";
import { hostKeyAlgorithms, hostKeyProblem, hostKeysOf } from "../../../src/connector/config/host-keys.ts";
import { bringKey } from "../../support/servers/ssh-keys.ts";

// GitHub's published keys and their fingerprints.
const ed25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl";
const ecdsa =
  "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBEmKSENjQEezOmxkZMy7opKgwFB9nkt5YRrYMjNuG5N87uRgg6CLrbo5wAdT/y6v0mKV0U2w0WZ2YB/++Tpockg=";
const fingerprints = [
  "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU",
  "SHA256:p2QAMXNIC1TJYWeIOttrVc98/R1BUFWu3/LiyKgUfQM",
];

describe("host keys", () => {
  test("keys and fingerprints, with comments, blanks and padding", () => {
    const entries = [
      `  ${ed25519}  somebody@host `,
      `${ecdsa}`,
      `${fingerprints[0]}=`,
      `${bringKey("rsa").publicKey}`,
    ];
    expect(entries.map(hostKeyProblem)).toEqual([null, null, null, null]);
    const keys = hostKeysOf(entries);
    expect(keys.slice(0, 3).map(({ fingerprint }) => fingerprint)).toEqual([
      ...fingerprints,
      fingerprints[0]!,
    ]);
    expect(keys.map(({ type }) => type)).toEqual(["ssh-ed25519", "ecdsa-sha2-nistp256", null, "ssh-rsa"]);
  });

  test("the types that are expected are asked for first", () => {
    expect(hostKeyAlgorithms(hostKeysOf([ecdsa, bringKey("rsa").publicKey])).slice(0, 5)).toEqual([
      ...["ecdsa-sha2-nistp256", "rsa-sha2-512", "rsa-sha2-256", "ssh-rsa", "ssh-ed25519"],
    ]);
    expect(hostKeyAlgorithms([])[0]).toBe("ssh-ed25519");
  });

  test.each([
    ["", "expected a public key"],
    ["bastion.example.com", "expected a public key"],
    [`bastion.example.com ${ed25519}`, "leave out the host name"],
    [`|1|abc=|def= ${ed25519}`, "leave out the host name"],
    [`@cert-authority * ${ed25519}`, "marked lines are not supported"],
    [ed25519.slice(0, -6), "cut off or damaged"],
    [ed25519.replace("ssh-ed25519", "ssh-rsa"), "cut off or damaged"],
    ["ssh-ed25519", "cut off or damaged"],
    ["ssh-dss AAAAB3NzaC1kc3M=", "of this type are not supported"],
    [`256 ${fingerprints[0]} host (ED25519)`, "leave out everything but the fingerprint"],
    [`${fingerprints[0]} host`, "43 characters, and nothing else"],
    ["SHA256:abc", "43 characters, and nothing else"],
    ["MD5:65:96:2d:fc:e8:d5:a9:11:64:0c:0f:ea:00:6e:5b:bd", "MD5 fingerprints are not supported"],
    ["65:96:2d:fc:e8:d5:a9:11:64:0c:0f:ea:00:6e:5b:bd", "MD5 fingerprints are not supported"],
    ["-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl", "a PEM text is no host key"],
  ])("%s is refused, with what to write instead", (entry, problem) => {
    expect(hostKeyProblem(entry)).toContain(problem);
    expect(hostKeysOf([entry])).toEqual([]);
  });
});
