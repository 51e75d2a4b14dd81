// The fields of a connection to a Postgres server, which sources and sinks share. Pure.

import {
  choice,
  type FieldSpec,
  type GroupSpec,
  keyPair,
  lines,
  number,
  pem,
  secret,
  text,
  union,
} from "./field-spec.ts";

type At = "/source/postgres/connection" | "/sink/postgres/connection";

/** What everybody fills in. */
export function mainConnectionFields(at: At): FieldSpec[] {
  return [
    text(`${at}/host`, "Host", {
      isFixed: true,
      width: 4,
      placeholder: "db.example.com",
      hint: "Or a whole address: postgres://user:password@host/database",
    }),
    number(`${at}/port`, "Port", { isFixed: true, width: 2 }),
    text(`${at}/database`, "Database", { isFixed: true, width: 6 }),
    text(`${at}/user`, "User"),
    secret(`${at}/password`, "Password"),
  ];
}

export function connectionGroups(at: At): GroupSpec[] {
  return [
    {
      title: "Encryption (TLS)",
      fields: [
        choice(`${at}/ssl_mode` as "/source/postgres/connection/ssl_mode", "Mode", {
          Disable: "Disable: never encrypted",
          Prefer: "Prefer: encrypted where the server can",
          Require: "Require: always encrypted, certificate not checked",
          VerifyCa: "VerifyCa: certificate signed by a known authority",
          VerifyFull: "VerifyFull: and made out to this host",
        }),
        pem(`${at}/ssl_root_cert`, "Root certificates", {
          hint: "PEM text. Left out: those of the system.",
        }),
        pem(`${at}/ssl_cert`, "Client certificate", { hint: "PEM text. It needs its key." }),
        pem(`${at}/ssl_key`, "Key of the client certificate", { hint: "PEM text, not encrypted." }),
      ],
    },
    {
      title: "SSH tunnel",
      fields: tunnelFields(at),
    },
    {
      title: "Connections and locks",
      fields: [
        number(`${at}/max_pool_size`, "Connections for copies", {
          width: 2,
          hint: "0: four chunks at once.",
        }),
        number(`${at}/operation_lock_timeout_seconds`, "Wait for a lock (s)", {
          width: 2,
          hint: "0: built-in default.",
        }),
      ],
    },
  ];
}

function tunnelFields(at: At): FieldSpec[] {
  const ssh = `${at}/tunnel/ssh` as const;
  const under = { under: ssh };
  return [
    union(
      `${at}/tunnel` as "/source/postgres/connection/tunnel",
      "Way to the server",
      { ssh: "Through an SSH server" },
      { none: "Directly", blanks: { ssh: { auth: { bring_your_own_key: {} } } } },
    ),
    text(`${ssh}/bastion_host`, "SSH host", { ...under, width: 4 }),
    number(`${ssh}/bastion_port`, "SSH port", { ...under, width: 2, placeholder: "22" }),
    text(`${ssh}/user`, "SSH user", under),
    union(
      `${ssh}/auth` as "/source/postgres/connection/tunnel/ssh/auth",
      "Key",
      { bring_your_own_key: "A key that you have", generated_key: "A new pair" },
      under,
    ),
    pem(`${ssh}/auth/bring_your_own_key/private_key`, "Private key", {
      under: `${ssh}/auth/bring_your_own_key`,
      hint: "As ssh-keygen writes it, without a passphrase: Ed25519, ECDSA or RSA.",
    }),
    keyPair(`${ssh}/auth/generated_key`, "Key pair", { under: `${ssh}/auth/generated_key` }),
    lines(`${ssh}/host_keys`, "Keys of the SSH servers", {
      ...under,
      hint: "One a line: as in known_hosts without the host, or SHA256:… Left out, any key is accepted; the test shows the one that it saw.",
    }),
    lines(`${ssh}/bastion_alternates`, "Other SSH servers", {
      ...under,
      hint: "One a line, as host or host:port. Tried in order.",
    }),
  ];
}
