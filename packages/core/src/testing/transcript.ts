// Events as numbered lines, so that a test's assertion reads as a list of events in order.

import type { StampedeEvent } from '../events.ts'
import type { Stampede } from '../stampede.ts'

export class Transcript {
  readonly lines: string[] = []

  /** Several Stampedes may be recorded into one transcript, each under its name. */
  record(stampede: Stampede, name = ''): this {
    stampede.on('*', (event) => {
      this.lines.push(`${name === '' ? '' : `${name}: `}${describe(event)}`)
    })
    return this
  }

  note(line: string): void {
    this.lines.push(line)
  }

  /** The lines since the last call. */
  take(): string[] {
    return this.lines.splice(0)
  }
}

function describe(event: StampedeEvent): string {
  switch (event.type) {
    case 'entry.hit':
      return `hit ${event.tier}${event.stale ? ' stale' : ''}`
    case 'fill.started':
      return `fill.started${event.behind ? ' behind' : ''}${event.fence === undefined ? ' unleased' : ''}`
    case 'fill.passed':
      return `fill.passed ${event.reason}`
    case 'wait.ended':
      return `wait.ended by ${event.by}`
    case 'store.failed':
      return `store.failed ${event.operation}`
    case 'entry.purged':
      return event.soft ? 'purged softly' : 'purged'
    case 'idempotency.answered':
      return `answered ${event.outcome}`
    case 'idempotency.finished':
      return `finished ${event.as}, ${event.reply}`
    default:
      return event.type
  }
}
