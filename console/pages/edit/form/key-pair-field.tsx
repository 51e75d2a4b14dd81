// A pair of SSH keys that the service makes. The private half goes into the form unseen; the public one is to be pasted.

import { useState } from "preact/hooks";
import { answer } from "../../../api/client.ts";
import { useConsole } from "../../../console-context.ts";
import { Button } from "../../../parts/button.tsx";
import { Command } from "../../../parts/command.tsx";
import { Failure } from "../../../parts/notice.tsx";
import type { FieldSpec } from "../fields/field-spec.ts";
import { valueAt } from "../model/pointer.ts";
import type { Form } from "./form-context.ts";

interface KeyPairFieldProps {
  readonly form: Form;
  readonly field: Extract<FieldSpec, { kind: "keyPair" }>;
}

export function KeyPairField({ form, field: { path, label } }: KeyPairFieldProps) {
  const { api } = useConsole();
  const [failure, setFailure] = useState<unknown>(null);
  const publicKey = valueAt(form.draft, `${path}/public_key`);
  const error = form.problemAt(path);
  const make = async () => {
    try {
      const { private_key, public_key } = await answer(api["ssh-keys"].post());
      form.set(path, { private_key, public_key });
      setFailure(null);
    } catch (problem) {
      setFailure(problem);
    }
  };
  const isThere = typeof publicKey === "string" && publicKey !== "";
  return (
    <div class="field">
      <span class="label">{label}</span>
      {isThere && (
        <>
          <span class="hint">Add this line to ~/.ssh/authorized_keys of the SSH user:</span>
          <Command text={publicKey} what="public key" />
        </>
      )}
      <div>
        <Button size="small" name={path} onClick={make}>
          {isThere ? "Make another pair" : "Make a pair"}
        </Button>
      </div>
      {error && <span class="error">{error}</span>}
      {failure !== null && <Failure title="No pair was made" error={failure} />}
    </div>
  );
}
