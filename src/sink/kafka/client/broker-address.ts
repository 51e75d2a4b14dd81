// Host and port of a broker, as configurations name it. Pure.

export interface Address {
  readonly host: string;
  readonly port: number;
}

/** Of `host:port`, or `[address]:port`. */
export function addressOf(broker: string): Address {
  const colon = broker.lastIndexOf(":");
  return { host: broker.slice(0, colon).replace(/^\[|\]$/g, ""), port: Number(broker.slice(colon + 1)) };
}

export function addressText({ host, port }: Address): string {
  return `${host.includes(":") ? `[${host}]` : host}:${port}`;
}
