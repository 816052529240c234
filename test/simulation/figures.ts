// The figures of a run: counts of calls, commands, faults and outcomes.

export class Figures {
  readonly faults = new Map<string, number>()
  calls = 0
  purges = 0
  origin = 0
  locks = 0
  jobs = 0
  visits = 0
  visitsFromCache = 0
  works = 0
  committed = 0
  fenced = 0
  /** Lookups answered by a delivered entry, by a plain read, and by the script. */
  told = 0
  readFirst = 0
  scripted = 0
  failed = 0
  commands = 0
  steps = 0
  episodes = 0
  simulatedMs = 0
  /** The greatest age of a purge whose outdated entry was still served. */
  worstStalenessMs = 0
  /** Purges lost in a fail-over, to which the rule does not apply. */
  lostPurges = 0
  /** Lost purges that hold again, because a process that made one told the server. */
  restoredPurges = 0
  mostProcesses = 0

  count(fault: string): void {
    this.faults.set(fault, (this.faults.get(fault) ?? 0) + 1)
  }
}
