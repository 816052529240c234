// What is known of a peer before it runs: its name, what it is made of, how it was set up, and what it does not claim.

export interface Peer {
  readonly id: string
  /** The head of its column. */
  readonly name: string
  /** npm packages whose versions the table gives, the peer's own first. */
  readonly packages: readonly string[]
  readonly framework: string
  /** How its documentation says to set it up, and which options of that were used. */
  readonly setUp: string
  /** How long a silent holder is trusted, if there is such an option. */
  readonly leaseMs?: number
  /** What it leaves to its caller by design: not asked, not counted. Case id to reason. */
  readonly notSupported?: Readonly<Record<string, string>>
  /** Run in a process of its own. */
  readonly load: () => Promise<PeerServer>
}

export interface PeerServer {
  /** Resolves with the port that it listens on. */
  readonly start: (redisUrl: string) => Promise<number>
}
