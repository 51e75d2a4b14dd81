// Creates key pairs for SSH tunnels. They are not stored.

import { Elysia } from "elysia";
import { NoQuery, schemas } from "../openapi/named-schemas.ts";
import { newSshKeyPair } from "./ssh-key-pair.ts";

export function sshKeyRoutes() {
  return new Elysia({ name: "ssh-key-routes", prefix: "/api/v1", normalize: false }).post(
    "/ssh-keys",
    () => newSshKeyPair(),
    {
      query: NoQuery,
      response: { 200: schemas.SshKeyPair },
      detail: {
        operationId: "createSshKeyPair",
        tags: ["Inspection"],
        summary: "Make an Ed25519 key pair for a tunnel",
        description: "In OpenSSH form. The service does not keep it.",
      },
    },
  );
}
