// The connection to a Postgres server: the schema and type that sources and sinks share.

import { type Static, Type } from "@sinclair/typebox";
import {
  clearableSecretInput,
  oneOf,
  patternWithoutNul,
  secretInput,
  secretText,
  strictObject,
  taggedUnion,
  wholeNumber,
} from "../request/schema-forms.ts";

// A NUL byte ends a string in the wire protocol: the rest would be read as another field.
const wireText = (description: string) =>
  Type.String({ minLength: 1, maxLength: 255, pattern: patternWithoutNul, description });

const port = (description: string) => wholeNumber({ minimum: 1, maximum: 65_535, description });

const SslModeSchema = oneOf(["Disable", "Prefer", "Require", "VerifyCa", "VerifyFull"], {
  description: "Whether the connection is encrypted and the server's certificate checked, as in libpq.",
});

// --- tunnel ----------------------------------------------------------------------------------

const bastion = {
  bastion_host: wireText("Host name or address of the SSH server."),
  user: wireText("User at the SSH server."),
};
const bastionPort = port("Port of the SSH server.");
const bastionAlternates = Type.Array(
  wireText("Another SSH server, as host or host:port, tried in order. Without a port: bastion_port."),
  { maxItems: 16 },
);
const hostKeys = Type.Array(
  Type.String({
    maxLength: 8192,
    description:
      "A public key as in known_hosts, without the host (`ssh-ed25519 AAAA…`), or its fingerprint (`SHA256:…`).",
  }),
  {
    minItems: 1,
    maxItems: 64,
    description:
      "Keys of the SSH servers, as lines of known_hosts without the host (`ssh-ed25519 AAAA…`) or as fingerprints (`SHA256:…`): each server " +
      "must present one of them. Left out: any key is accepted, and validation shows the fingerprint.",
  },
);
const publicKey = Type.String({ description: "The key's public half, in OpenSSH form." });
const privateKeyText = "Private key in OpenSSH form (PEM text), without a passphrase: Ed25519, ECDSA or RSA.";

const TunnelRequestSchema = taggedUnion({
  ssh: Type.Optional(
    strictObject({
      ...bastion,
      bastion_port: Type.Optional(bastionPort),
      bastion_alternates: Type.Optional(bastionAlternates),
      host_keys: Type.Optional(hostKeys),
      auth: taggedUnion({
        generated_key: Type.Optional(
          strictObject({ private_key: secretInput(privateKeyText), public_key: publicKey }),
        ),
        bring_your_own_key: Type.Optional(strictObject({ private_key: secretInput(privateKeyText) })),
      }),
    }),
  ),
});

const TunnelSchema = taggedUnion({
  ssh: Type.Optional(
    strictObject({
      ...bastion,
      bastion_port: bastionPort,
      bastion_alternates: bastionAlternates,
      host_keys: Type.Optional(hostKeys),
      auth: taggedUnion({
        generated_key: Type.Optional(
          strictObject({ private_key: secretText(privateKeyText), public_key: publicKey }),
        ),
        bring_your_own_key: Type.Optional(strictObject({ private_key: secretText(privateKeyText) })),
      }),
    }),
  ),
});
export type TunnelConfig = Static<typeof TunnelSchema>;

// --- connection ------------------------------------------------------------------------------

const address = {
  host: wireText("Host name, address, or the directory of a Unix socket."),
  user: wireText("Role to log in as."),
  database: wireText("Database to connect to."),
};
const portField = port("Port of the server.");
const maxPoolSize = wholeNumber({
  maximum: 1000,
  description: "Most connections at once; 0: built-in default.",
});
const lockTimeout = wholeNumber({
  maximum: 86_400,
  description: "How long a statement may wait for a lock, in seconds; 0: built-in default.",
});
const certText = "Client certificate, PEM text. Needs `ssl_key`.";
const keyText = "Private key of the client certificate `ssl_cert`, PEM text, not encrypted.";
const rootText = "Certificates that the server's must be signed by, PEM text.";

export const PostgresConnectionRequestSchema = strictObject({
  ...address,
  port: Type.Optional(portField),
  password: secretInput('Password of the role. Required; left out or "***", the stored one.'),
  ssl_mode: Type.Optional(SslModeSchema),
  ssl_cert: clearableSecretInput(certText),
  ssl_key: clearableSecretInput(keyText),
  ssl_root_cert: clearableSecretInput(rootText),
  max_pool_size: Type.Optional(maxPoolSize),
  operation_lock_timeout_seconds: Type.Optional(lockTimeout),
  tunnel: Type.Optional(TunnelRequestSchema),
});
export type PostgresConnectionRequest = Static<typeof PostgresConnectionRequestSchema>;

export const PostgresConnectionSchema = strictObject({
  ...address,
  port: portField,
  password: secretText("Password of the role."),
  ssl_mode: SslModeSchema,
  ssl_cert: Type.Optional(secretText(certText)),
  ssl_key: Type.Optional(secretText(keyText)),
  ssl_root_cert: Type.Optional(secretText(rootText)),
  max_pool_size: maxPoolSize,
  operation_lock_timeout_seconds: lockTimeout,
  tunnel: Type.Optional(TunnelSchema),
});

/** Every default filled, secrets present. */
export type PostgresConnection = Static<typeof PostgresConnectionSchema>;
