// What happened in a run, in numbers.

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
  /** Look-ups that were answered by what the process was told, by a plain read, and by the script. */
  told = 0
  readFirst = 0
  scripted = 0
  failed = 0
  commands = 0
  steps = 0
  episodes = 0
  simulatedMs = 0
  /** Of an answer, after a purge that it should have known: how long after. */
  worstStalenessMs = 0
  /** Purges that a fail-over lost, so that nothing was asked of them. */
  lostPurges = 0
  /** Of them: held again, as a process that made one told the server of it. */
  restoredPurges = 0
  mostProcesses = 0

  count(fault: string): void {
    this.faults.set(fault, (this.faults.get(fault) ?? 0) + 1)
  }
}
