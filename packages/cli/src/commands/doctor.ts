// `stampede doctor`: checks Redis for everything that Stampede needs, one line for each finding.

import type { Command, Invocation } from '../command.ts'
import { examine, unreachableFinding } from '../doctor/examine.ts'
import type { Finding } from '../doctor/finding.ts'
import { EXIT, type ExitCode, UsageError } from '../errors.ts'
import { printable } from '../format.ts'
import type { Terminal } from '../terminal.ts'

export const doctor: Command = {
  summary: 'Checks Redis: version, eviction, rights, clock, latency, messages, persistence.',
  usage: 'stampede doctor [options]',
  options: [],
  run,
}

async function run({ names, settings, terminal }: Invocation): Promise<ExitCode> {
  if (names.length > 0) throw new UsageError(`received ${names[0]}; doctor takes options only`)
  const findings: Finding[] = []
  const report = (finding: Finding) => {
    findings.push(finding)
    if (!terminal.json) terminal.print(finding, () => [lineOf(finding, terminal)])
  }
  let isReachable = true
  await examine(settings, report).catch((error: Error) => {
    isReachable = false
    report(unreachableFinding(error))
  })
  if (terminal.json) terminal.print({ findings }, () => [])
  if (!isReachable) return EXIT.unavailable
  return findings.some(({ level }) => level === 'fail') ? EXIT.found : EXIT.ok
}

const STYLES = { ok: 'green', warn: 'yellow', fail: 'red' } as const

function lineOf({ level, check, message, fix }: Finding, terminal: Terminal): string {
  const mark = terminal.style(STYLES[level], level.toUpperCase().padEnd(4))
  const text = fix === undefined ? message : `${message}. Fix: ${fix}`
  return `${mark}  ${check.padEnd(11)}  ${printable(text)}`
}
