// Assumes the shapes of relations that a transaction in progress announces. The catalog does not show what such a
// transaction has done to its tables, so they are assumed to be unchanged. After the commit they are compared with the
// catalog, before the end is handed out.

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

  /**
   * Replaces announced relations by assumed ones in `relations`, a part's, and in those that are buffered. Throws
   * `transaction_given_up`.
   */
  assume(relations: Relation[], waiting: readonly Relation[][]): void {
    for (const announced of this.registry.undescribed(relations)) {
      const as = this.registry.assume(announced.relation, [relations, ...waiting]);
      if (as === null) throw givenUp("it brings a table in a shape that is not known yet");
      this.#assumed.push({ announced, as });
    }
  }

  /** The transaction has ended. Throws `transaction_given_up` where a table is not as assumed. */
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
