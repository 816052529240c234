// Description of a library before it runs: name, packages, set-up, and cases that it does not
// support.

export interface Peer {
  readonly id: string
  /** The head of its column. */
  readonly name: string
  /** npm packages whose versions the table gives, the peer's own first. */
  readonly packages: readonly string[]
  readonly framework: string
  /** The set-up that its documentation describes, with the options that were used. */
  readonly setUp: string
  /** How long the library trusts a holder that does not renew, if it has such an option. */
  readonly leaseMs?: number
  /** Cases that it leaves to its caller, by case id, with the reason. They are not tested. */
  readonly notSupported?: Readonly<Record<string, string>>
  /** Called in a process of its own. */
  readonly load: () => Promise<PeerServer>
}

export interface PeerServer {
  /** Resolves with the port that it listens on. */
  readonly start: (redisUrl: string) => Promise<number>
}
