// The far end of the line, in the transport's worker. It opens a delivery for each session, and closes the one before.

import type { DeliveryMessage } from "../delivery-messages.ts";
import type { DeliverySession } from "../delivery-session.ts";
import type { FromDelivery, LineEnvelope, ToDelivery } from "./line-messages.ts";

/** How long what is under way may take to end when a session is closed. */
const defaultGraceMs = 3000;

export type OpenDelivery = (send: (message: FromDelivery) => void) => DeliverySession;

export class LineServer {
  #session = 0;
  #delivery: DeliverySession | null = null;
  /** Sessions end and begin one after the other: no two of them have rows in flight. */
  #transition: Promise<void> = Promise.resolve();
  /** What arrived for the session while the one before it was closing. */
  #early: DeliveryMessage[] = [];

  constructor(
    private readonly line: MessagePort,
    private readonly open: OpenDelivery,
    private readonly graceMs = defaultGraceMs,
  ) {
    line.onmessage = ({ data }) => this.#receive(data as LineEnvelope<ToDelivery>);
  }

  /** Ends the session under way and closes the line. */
  async close(): Promise<void> {
    this.#transition = this.#transition.then(() => this.#end());
    await this.#transition;
    this.line.close();
  }

  #receive({ session, message }: LineEnvelope<ToDelivery>): void {
    if (session < this.#session) return;
    if (session > this.#session) this.#begin(session);
    if (message.type === "close") this.#finish(session, message);
    else if (this.#delivery) this.#delivery.receive(message);
    else this.#early.push(message);
  }

  #begin(session: number): void {
    this.#session = session;
    this.#early = [];
    const before = this.#delivery;
    this.#delivery = null;
    this.#transition = this.#transition.then(async () => {
      await before?.stop(AbortSignal.timeout(this.graceMs));
      if (this.#session !== session) return;
      const delivery = this.open((message) => this.#send(session, message));
      this.#delivery = delivery;
      for (const message of this.#early.splice(0)) delivery.receive(message);
      void delivery.run();
    });
  }

  #finish(session: number, message: Extract<ToDelivery, { type: "close" }>): void {
    this.#transition = this.#transition.then(async () => {
      await this.#end();
      this.#send(session, { type: "reply", id: message.id, answer: null });
    });
  }

  async #end(): Promise<void> {
    const delivery = this.#delivery;
    this.#delivery = null;
    await delivery?.stop(AbortSignal.timeout(this.graceMs));
  }

  #send(session: number, message: FromDelivery): void {
    const envelope: LineEnvelope<FromDelivery> = { session, message };
    this.line.postMessage(envelope);
  }
}
