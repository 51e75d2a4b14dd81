// Completes the relations of a batch from the catalog before it is handed out.

import type { ChangeBatch } from "../../../change/change-batch.ts";
import type { Relation } from "../../../change/relation.ts";
import { AssumedRelations } from "../shapes/assumed-relations.ts";
import type { Announced } from "../shapes/relation-description.ts";
import type { RelationRegistry } from "../shapes/relation-registry.ts";
import type { StreamBuffer } from "./stream-buffer.ts";

export class BatchRelations {
  readonly #assumed: AssumedRelations;

  constructor(
    private readonly registry: RelationRegistry,
    private readonly buffer: Pick<StreamBuffer, "relationLists">,
    private readonly describe: (announced: readonly Announced[]) => Promise<readonly Relation[]>,
  ) {
    this.#assumed = new AssumedRelations(registry, describe);
  }

  async complete(batch: ChangeBatch): Promise<ChangeBatch> {
    const { registry, buffer } = this;
    const { inProgress } = batch;
    if (inProgress) {
      const own = [...batch.relations];
      this.#assumed.assume(own, buffer.relationLists);
      if (inProgress.outcome !== "open") await this.#assumed.end(inProgress);
      return { ...batch, relations: own };
    }
    const announced = registry.undescribed(batch.relations);
    if (announced.length === 0) return batch;
    const described = await this.describe(announced);
    const own = [...batch.relations];
    announced.forEach(({ relation }, i) => {
      registry.describe(relation, described[i] ?? relation, [own, ...buffer.relationLists]);
    });
    return { ...batch, relations: own };
  }
}
