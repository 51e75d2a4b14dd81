// Logs, once for each table, that a TRUNCATE was not sent: the native format has no form for it.

import { type ChangeBatch, ChangeKind } from "../../../change/change-batch.ts";
import { qualifiedName } from "../../../change/relation.ts";

export class TruncateNotice {
  readonly #logged = new Set<string>();

  constructor(
    /** The format sends them: there is nothing to log. */
    private readonly areSent: boolean,
    private readonly log: (level: "warn", message: string, fields: Readonly<Record<string, string>>) => void,
  ) {}

  look(batch: ChangeBatch): void {
    if (this.areSent) return;
    for (let i = 0; i < batch.count; i++) {
      if (batch.kind[i] !== ChangeKind.truncate) continue;
      const table = qualifiedName(batch.relations[batch.relation[i]!]!);
      if (this.#logged.has(table)) continue;
      this.#logged.add(table);
      this.log("warn", "TRUNCATE is not sent in this format: the receiver keeps the table's rows", { table });
    }
  }
}
