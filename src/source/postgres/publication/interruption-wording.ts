// Says which tables are copied again, as a publication did not have their changes for a while. Pure.

import { qualifiedName, type TableShape } from "../../../change/relation.ts";
import { listedNames } from "../../../errors/listed-names.ts";
import type { Interruption } from "./publication-membership.ts";

export function describeInterruption(
  interruption: Interruption,
  publications: string,
  tables: readonly TableShape[],
): string {
  const names = listedNames(tables.map(({ relation }) => qualifiedName(relation)));
  switch (interruption) {
    case "detached":
      return (
        `Somebody detached ${names} from a partitioned table of publication ${publications}, for a while at least: ` +
        "copied again, as the changes in between are missing."
      );
    case "removed":
      return (
        `Somebody took ${names} out of publication ${publications}, for a while at least: ` +
        "copied again, as the changes in between are missing."
      );
    case "altered":
      return (
        `Publication ${publications} was altered, or may have been: ${names} copied again, ` +
        "as changes that it did not publish for a while are missing."
      );
    case "rewritten":
      return (
        `${names} got other files: copied again, as changes are missing if it was made unlogged for a while. ` +
        `Postgres lets nobody do so with a table that publication ${publications} lists by its name.`
      );
    default:
      return interruption satisfies never;
  }
}
