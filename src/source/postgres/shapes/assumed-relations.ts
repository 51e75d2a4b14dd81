// Relations that a transaction in progress announces. The catalog does not show what such a transaction has done to its tables:
// they are taken for what they were before, and looked at once the transaction is committed, before its end is handed out.

import type { InProgress } from "../../../change/change-batch.ts";
import type { Relation } from "../../../change/relation.ts";
import { givenUp } from "../../../errors/given-up.ts";
import type { Announced } from "./relation-description.ts";
import { isSameRelation, type RelationRegistry } from "./relation-registry.ts";

export class AssumedRelations {
  #assumed: { readonly announced: Announced; readonly as: Relation }[] = [];

  constructor(
    private readonly registry: RelationRegistry,
    private readonly describe: (announced: readonly Announced[]) => Promise<readonly Relation[]>,
  ) {}

  /** Puts what is assumed into `relations`, a part's, and into those of what waits. Throws `transaction_given_up`. */
  assume(relations: Relation[], waiting: readonly Relation[][]): void {
    for (const announced of this.registry.undescribed(relations)) {
      const as = this.registry.assume(announced.relation, [relations, ...waiting]);
      if (as === null) throw givenUp("it brings a table in a shape that is not known yet");
      this.#assumed.push({ announced, as });
    }
  }

  /** The transaction has ended. Throws `transaction_given_up` where a table is not what it was taken for. */
  async end({ commitLsn }: InProgress): Promise<void> {
    const assumed = this.#assumed;
    this.#assumed = [];
    if (commitLsn === null || assumed.length === 0) return;
    const described = await this.describe(assumed.map(({ announced }) => ({ ...announced, at: commitLsn })));
    const isRight = assumed.every(({ as }, i) => {
      const relation = described[i];
      return relation !== undefined && !relation.isGuess && isSameRelation(as, relation);
    });
    if (!isRight) throw givenUp("it altered a table");
  }
}
