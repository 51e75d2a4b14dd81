// Answers the API's requests about what is parked. What people ask for is stored; the run of the connector, wherever it is, looks for it.

import type { ParkedService } from "../api/services.ts";
import type { Parked, ParkedChoice, ParkedList, ParkedPageRequest } from "../connector/parked-message.ts";
import { MillraceError } from "../errors/millrace-error.ts";
import type { State } from "../state/open-state.ts";

export class StoredParkedService implements ParkedService {
  constructor(private readonly state: Pick<State, "connectors" | "parked">) {}

  async list(connectorId: string, request: ParkedPageRequest): Promise<ParkedList> {
    await this.state.connectors.get(connectorId);
    return await this.state.parked.list(connectorId, request);
  }

  async get(connectorId: string, id: string, withBody: boolean): Promise<Parked> {
    await this.state.connectors.get(connectorId);
    const found = await this.state.parked.find(connectorId, id, withBody);
    if (!found) throw notParked(id);
    return found;
  }

  async retry(connectorId: string, choice: ParkedChoice): Promise<{ readonly count: number }> {
    await this.state.connectors.get(connectorId);
    return counted(await this.state.parked.ask(connectorId, choice), choice);
  }

  async discard(connectorId: string, choice: ParkedChoice, by: string): Promise<{ readonly count: number }> {
    await this.state.connectors.get(connectorId);
    return counted(await this.state.parked.discard(connectorId, choice, by), choice);
  }
}

function counted(count: number, choice: ParkedChoice): { count: number } {
  if (count === 0 && "id" in choice) throw notParked(choice.id);
  return { count };
}

function notParked(id: string): MillraceError {
  return new MillraceError(
    "parked_not_found",
    `No message ${id} is parked: it was delivered or discarded, or there was none.`,
  );
}
