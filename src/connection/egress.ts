// Which addresses requests may go to. The rule is pure; `AddressResolver` asks DNS and applies it, so that
// a request is sent to an address that was checked and not to a name that may resolve anew.

import { lookup } from "node:dns/promises";
import ipaddr from "ipaddr.js";
import { MillraceError } from "../errors/millrace-error.ts";

/** `public`: all private ranges are refused. `default`: link-local addresses and metadata services are. */
export type EgressPolicy = "default" | "public";

type IpAddress = ipaddr.IPv4 | ipaddr.IPv6;

/** Throws `invalid_setting` for another word: to take it as `default` would open what somebody meant to close. */
export function egressPolicy(environment: Readonly<Record<string, string | undefined>>): EgressPolicy {
  const word = environment.MILLRACE_WEBHOOK_EGRESS?.trim() || "default";
  if (word === "public" || word === "default") return word;
  throw new MillraceError("invalid_setting", "MILLRACE_WEBHOOK_EGRESS must be public, or unset.");
}

/** Metadata services that are not link-local: AWS over IPv6 (of machines, of pods), Google, Scaleway, Alibaba, Oracle, Azure's host agent. */
const metadataAddresses: ReadonlySet<string> = new Set([
  "fd00:ec2::254",
  "fd00:ec2::23",
  "fd20:ce::254",
  "fd00:42::42",
  "100.100.100.200",
  "192.0.0.192",
  "168.63.129.16",
]);

/** Why requests may not go to `address`; null when they may. */
export function refusal(address: string, policy: EgressPolicy): string | null {
  const bare = address.replace(/%.*$/, "");
  if (!ipaddr.isValid(bare)) return "is not an IP address";
  const reasons = destinations(ipaddr.process(bare)).map((each) => destinationRefusal(each, policy));
  return reasons.find((reason) => reason !== null) ?? null;
}

function destinationRefusal(destination: IpAddress, policy: EgressPolicy): string | null {
  const range = destination.range();
  if (range === "linkLocal") return "is link-local";
  if (metadataAddresses.has(destination.toString())) return "is a cloud's metadata service";
  if (range === "multicast" || range === "broadcast") return "is not the address of one host";
  if (policy === "public" && range !== "unicast") return `is not public (${range})`;
  return null;
}

/** As `refusal`, for a URL's hostname; null too for a name that DNS decides. */
export function literalRefusal(hostname: string, policy: EgressPolicy): string | null {
  const literal = /^(?:.+\.)?localhost\.?$/i.test(hostname) ? "127.0.0.1" : hostname.replace(/^\[|\]$/g, "");
  return ipaddr.isValid(literal) ? refusal(literal, policy) : null;
}

/** Where the bytes of an IPv4 address are in one of local NAT64, whose prefix has one of four lengths: RFC 6052, section 2.2. */
const localNat64 = [
  [6, 7, 9, 10],
  [7, 9, 10, 11],
  [9, 10, 11, 12],
  [12, 13, 14, 15],
];

/** What another prefix's bits look like, where an address is read by a length that is not its own. */
function isMisread(address: IpAddress): boolean {
  return (
    ["unspecified", "reserved"].includes(address.range()) && destinationRefusal(address, "default") === null
  );
}

/**
 * Where packets end up: the IPv4 address within one of NAT64 (64:ff9b::/96, RFC 6052; 64:ff9b:1::/48, RFC 8215), of a translator (::ffff:0:0:0/96,
 * RFC 6145) or of 6to4 (2002::/16), or the address itself. Several where the length of a prefix is not known.
 */
function destinations(address: IpAddress): readonly IpAddress[] {
  if (address.kind() === "ipv4") return [address];
  const bytes = address.toByteArray();
  const ipv4 = (positions: readonly number[]) => ipaddr.fromByteArray(positions.map((at) => bytes[at]!));
  switch (address.range()) {
    case "rfc6052":
      return bytes[5] === 0 ? [ipv4([12, 13, 14, 15])] : readings(localNat64.map(ipv4));
    case "rfc6145":
      return [ipv4([12, 13, 14, 15])];
    case "6to4":
      return [ipv4([2, 3, 4, 5])];
    default:
      return [address];
  }
}

function readings(addresses: readonly IpAddress[]): readonly IpAddress[] {
  const meant = addresses.filter((each) => !isMisread(each));
  return meant.length > 0 ? meant : addresses;
}

export type Lookup = (host: string) => Promise<readonly string[]>;

export const systemLookup: Lookup = async (host) => {
  const found = await lookup(host, { all: true, verbatim: true });
  return found.map(({ address }) => address);
};

/**
 * How long an answer of DNS is used again: short enough to follow a change, long enough not to ask for each
 * request.
 */
const answerLifetimeMs = 1000;

/** Addresses that were checked, and until when that holds, by the resolver's clock. */
interface Answer {
  readonly addresses: readonly string[];
  readonly untilMs: number;
}

export class AddressResolver {
  readonly #answers = new Map<string, Answer>();
  readonly #asking = new Map<string, Promise<readonly string[]>>();

  constructor(
    private readonly policy: EgressPolicy,
    private readonly resolve: Lookup = systemLookup,
    private readonly now: () => number = Date.now,
  ) {}

  /** What `addresses` would give, where that is known already; null where DNS has to be asked. */
  known(host: string): readonly string[] | null {
    const answer = this.#answers.get(host);
    return answer && this.now() < answer.untilMs ? answer.addresses : null;
  }

  /**
   * Addresses of `host` (a URL's hostname) that may be sent to, best first. Throws
   * `webhook_address_refused` when there are only others, and what `resolve` throws.
   */
  async addresses(host: string): Promise<readonly string[]> {
    const known = this.known(host);
    if (known) return known;
    const asked = this.#asking.get(host) ?? this.#ask(host);
    return await asked;
  }

  /** A request got through to `address` of `host`: it is tried first while DNS names it. */
  worked(host: string, address: string): void {
    const answer = this.#answers.get(host);
    if (!answer || answer.addresses[0] === address || !answer.addresses.includes(address)) return;
    const addresses = [address, ...answer.addresses.filter((each) => each !== address)];
    this.#answers.set(host, { ...answer, addresses });
  }

  /** A request came to nothing at `address` of `host`: the next one goes to another address first, if there is one. */
  didNotWork(host: string, address: string): void {
    const answer = this.#answers.get(host);
    if (answer?.addresses[0] !== address) return;
    this.#answers.set(host, { ...answer, addresses: [...answer.addresses.slice(1), address] });
  }

  #ask(host: string): Promise<readonly string[]> {
    const asking = this.#check(host).finally(() => this.#asking.delete(host));
    this.#asking.set(host, asking);
    return asking;
  }

  async #check(host: string): Promise<readonly string[]> {
    const literal = host.replace(/^\[|\]$/g, "");
    const isLiteral = ipaddr.isValid(literal);
    const found = isLiteral ? [literal] : await this.resolve(host);
    const allowed = found.filter((address) => refusal(address, this.policy) === null);
    if (allowed.length === 0) {
      const first = found[0];
      const why = first === undefined ? "no address" : `${first} ${refusal(first, this.policy)}`;
      const text = `host ${host}: ${why}; requests do not go there`;
      throw new MillraceError("webhook_address_refused", text);
    }
    const best = this.#answers.get(host)?.addresses[0];
    const addresses =
      best !== undefined && allowed.includes(best)
        ? [best, ...allowed.filter((each) => each !== best)]
        : allowed;
    const untilMs = isLiteral ? Number.POSITIVE_INFINITY : this.now() + answerLifetimeMs;
    this.#answers.set(host, { addresses, untilMs });
    return addresses;
  }
}
