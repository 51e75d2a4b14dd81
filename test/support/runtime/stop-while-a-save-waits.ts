// A process whose sink is closed amid a transaction, while a commit waits for its end. Prints what came of it.

import { ready } from "../contract/carrying.ts";
import { entries, insert } from "../contract/history.ts";
import { batches, transaction } from "../rows/batch-fixture.ts";
import { committingRig } from "../webhook/committing-rig.ts";
import { RecordStore } from "../webhook/webhook-rig.ts";

const ids = [1, 2, 3, 4];
const [beginning] = batches(
  [
    transaction(
      1,
      ids.map((id) => insert(entries, id)),
    ),
  ],
  { perBatch: 3 },
);
{
  await using rig = committingRig(new RecordStore());
  await ready(rig.sink);
  await rig.sink.write(beginning!);
  // The window has ended by then, and its commit waits.
  await Bun.sleep(100);
}
process.stdout.write("closed\n");
setTimeout(() => {
  process.stdout.write("alive\n");
  process.exit(0);
}, 20);
