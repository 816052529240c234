// `stampede doctor`: checks Redis for everything that Stampede needs, or a URL of a running app.
// One line for each finding.

import { isUrl, readHeaders } from '../asked-key.ts'
import { type Command, type Invocation, list, text } from '../command.ts'
import { askUrl } from '../doctor/ask-url.ts'
import { examine, unreachableFinding } from '../doctor/examine.ts'
import type { Finding } from '../doctor/finding.ts'
import { EXIT, type ExitCode, UsageError } from '../errors.ts'
import { printable } from '../format.ts'
import type { Terminal } from '../terminal.ts'

export const doctor: Command = {
  summary: 'Checks Redis: version, eviction, rights, clock, latency. With --url: a running app.',
  usage: 'stampede doctor [options]',
  options: [
    ['--url URL', 'send at most three GET requests to the app, and say why none is a hit'],
    ['--header NAME:VALUE', 'with --url: a field of these requests', 'may be repeated'],
  ],
  run,
}

async function run({ names, values, settings, terminal }: Invocation): Promise<ExitCode> {
  if (names.length > 0) throw new UsageError(`received ${names[0]}; doctor takes options only`)
  const findings: Finding[] = []
  const report = (finding: Finding) => {
    findings.push(finding)
    if (!terminal.json) terminal.print(finding, () => [lineOf(finding, terminal)])
  }
  const url = text(values, 'url')
  if (url !== undefined && !(isUrl(url) && URL.canParse(url)))
    throw new UsageError(`--url: received ${url}; use a URL that begins with http:// or https://`)
  if (url !== undefined) {
    await askUrl(url, readHeaders(list(values, 'header')), settings.timeoutMs, report)
    if (terminal.json) terminal.print({ findings }, () => [])
    if (findings.at(-1)?.check !== 'result') return EXIT.unavailable
    return findings.at(-1)?.level === 'ok' ? EXIT.ok : EXIT.found
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
