// Names of staging tables: rows of the same shape that go to the same target share one.

import type { Relation } from "../../../change/relation.ts";
import type { TargetName } from "./target-name.ts";

export class StagingNames {
  readonly #names = new Map<string, string>();

  of(target: TargetName, { id, columns }: Relation): string {
    const shape = JSON.stringify([id, target, columns.map(({ name, typeName }) => [name, typeName])]);
    const name = this.#names.get(shape) ?? `millrace_stage_${this.#names.size + 1}`;
    this.#names.set(shape, name);
    return name;
  }
}
