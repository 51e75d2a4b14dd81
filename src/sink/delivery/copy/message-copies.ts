// Copies of tables as the pipeline sees them. Which of their rows go out, and with what version, is decided at the other end of the
// line, by delivery-copies.ts.

import type { RowKey } from "../../../change/copy-part.ts";
import type { TableShape } from "../../../change/relation.ts";
import { neverAborted, untilAborted } from "../../../concurrency/until-aborted.ts";
import type {
  CopyChunk,
  CopyMode,
  CopySink,
  Settled,
  StartedCopy,
  StreamDuring,
  TableCopy,
} from "../../copy-sink.ts";
import type { ReplayOf, TableReplay } from "../../replay-sink.ts";
import type { CopyMessage } from "../line/line-messages.ts";
import type { SinkLine } from "../line/sink-line.ts";

export class MessageCopies implements CopySink {
  #last = 0;

  /** `made`: the table's copy is made, durably. */
  constructor(
    private readonly line: SinkLine,
    private readonly made: (table: TableShape) => void,
  ) {}

  async begin(
    table: TableShape,
    mode: CopyMode,
    stream: StreamDuring,
    stop: AbortSignal,
  ): Promise<TableCopy> {
    return await this.#begin({ table, mode, stream }, stop);
  }

  /** A replay is made as a copy beside the stream, which records nothing of the table's copy. */
  async beginReplay(table: TableShape, replay: ReplayOf, stop: AbortSignal): Promise<TableReplay> {
    return await this.#begin({ table, mode: "merge", stream: "runs", replay }, stop);
  }

  async #begin(
    { table, ...asked }: Pick<CopyMessage<"begin">, "table" | "mode" | "stream" | "replay">,
    stop: AbortSignal,
  ): Promise<MessageCopy> {
    const copy = ++this.#last;
    const { client } = this.line;
    const handle = this.line.handle(table.relation);
    const answer = client.ask({ type: "copy.begin", copy, handle, table, ...asked });
    try {
      const decided = await untilAborted(answer, stop);
      const made = () => asked.replay || this.made(table);
      return new MessageCopy(this.line, copy, decided, stop, made);
    } catch (error) {
      client.post({ type: "copy.end", copy });
      throw error;
    }
  }

  rowsForm(): "text" {
    return "text";
  }

  /** As a copy that is not finished: it records nothing but that these rows are complete. */
  async takeRows(rows: CopyChunk): Promise<void> {
    await using copy = await this.begin(rows.table, "merge", "waits", neverAborted);
    await copy.take(rows);
  }
}

class MessageCopy implements TableReplay {
  constructor(
    private readonly line: SinkLine,
    private readonly copy: number,
    readonly stream: StreamDuring,
    private readonly stop: AbortSignal,
    private readonly made: () => unknown,
  ) {}

  async start(isDivided: boolean): Promise<StartedCopy> {
    const { client } = this.line;
    const asked = client.ask({ type: "copy.start", copy: this.copy, isDivided });
    return { form: "text", ranges: await untilAborted(asked, this.stop) };
  }

  /** A receiver may take as long as it likes. */
  async take(chunk: CopyChunk): Promise<void> {
    await untilAborted(this.line.sendChunk(chunk, this.copy, this.stream === "runs"), this.stop);
  }

  /** What is delivered is settled. */
  async settle(): Promise<Settled> {
    return "all";
  }

  async left(): Promise<readonly RowKey[]> {
    return await untilAborted(this.line.client.ask({ type: "copy.left", copy: this.copy }), this.stop);
  }

  async finish(): ReturnType<TableCopy["finish"]> {
    const asked = this.line.client.ask({ type: "copy.finish", copy: this.copy });
    const made = await untilAborted(asked, this.stop);
    this.made();
    return made;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.line.client.post({ type: "copy.end", copy: this.copy });
  }
}
