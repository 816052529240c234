// Finds the command in the arguments, runs it, and turns errors into messages and exit codes.

import { parseArgs } from 'node:util'
import type { Command } from './command.ts'
import { COMMANDS } from './commands/index.ts'
import { EXIT, type ExitCode, exitCodeOf, UsageError } from './errors.ts'
import { readUrl, type Settings } from './fleet.ts'
import { pairs } from './format.ts'
import type { Terminal } from './terminal.ts'

const COMMON = {
  redis: { type: 'string' },
  prefix: { type: 'string' },
  timeout: { type: 'string' },
  sentinel: { type: 'string' },
  json: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
} as const

const COMMON_HELP = [
  ['--redis URL', 'the fleet’s Redis; default REDIS_URL, then redis://127.0.0.1:6379'],
  ['--prefix TEXT', 'the prefix of redisStore; default stampede'],
  ['--sentinel NAME', 'the URL is that of a Sentinel, and NAME is the name of the master'],
  ['--timeout MS', 'how long to wait for a reply; for doctor: for all replies; default 5000'],
  ['--json', 'print JSON'],
] as const

/** Never rejects. */
export async function run(args: readonly string[], terminal: Terminal): Promise<ExitCode> {
  terminal.json = args.includes('--json')
  try {
    return await runCommand(args, terminal)
  } catch (error) {
    const { code, message } = error as { code?: string; message: string }
    const exit = exitCodeOf(error)
    terminal.fail(code ?? 'ERROR', message)
    if (exit === EXIT.usage) terminal.note('See stampede --help.')
    return exit
  }
}

async function runCommand(args: readonly string[], terminal: Terminal): Promise<ExitCode> {
  const at = args.findIndex((each) => !each.startsWith('-'))
  const name = at === 0 ? args[0] : undefined
  if (name === undefined) {
    if (args.length > 0 && !args.some((each) => each === '--help' || each === '-h')) {
      throw new UsageError(`begin with a command: ${Object.keys(COMMANDS).join(', ')}`)
    }
    terminal.print({ commands: Object.keys(COMMANDS) }, overview)
    return args.length === 0 ? EXIT.usage : EXIT.ok
  }
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined
  if (command === undefined) {
    throw new UsageError(`unknown command ${name}; use one of ${Object.keys(COMMANDS).join(', ')}`)
  }
  const { values, positionals } = parseArgs({
    args: args.slice(1),
    options: { ...COMMON, ...command.options },
    allowPositionals: true,
  })
  if (values.help === true) {
    terminal.print({ usage: command.usage }, () => helpOf(command))
    return EXIT.ok
  }
  const settings = readSettings(values, terminal)
  return command.run({ values: values as never, names: positionals, settings, terminal })
}

const MAX_TIMEOUT_MS = 60_000

function readSettings(
  values: { redis?: unknown; prefix?: unknown; timeout?: unknown; sentinel?: unknown },
  { env }: Terminal,
): Settings {
  const timeoutMs = Number(values.timeout ?? 5_000)
  if (!Number.isInteger(timeoutMs) || timeoutMs < 10 || timeoutMs > MAX_TIMEOUT_MS) {
    throw new UsageError(`--timeout: received ${values.timeout}; use 10 to ${MAX_TIMEOUT_MS} ms`)
  }
  const { STAMPEDE_SECRET, STAMPEDE_ENCRYPTION_KEYS = '' } = env
  return {
    url: readUrl(String(values.redis ?? env.REDIS_URL ?? 'redis://127.0.0.1:6379')),
    prefix: String(values.prefix ?? 'stampede'),
    timeoutMs,
    sentinel: values.sentinel as string | undefined,
    secret: STAMPEDE_SECRET,
    encryptionKeys: STAMPEDE_ENCRYPTION_KEYS.split(',').filter((key) => key !== ''),
  }
}

function overview(): string[] {
  const list = Object.entries(COMMANDS).map(([name, { summary }]) => [name, summary] as const)
  return [
    'Usage: stampede COMMAND [options]',
    '',
    ...indented(list),
    '',
    'Options of every command:',
    ...indented(COMMON_HELP),
    '',
    'stampede COMMAND --help has the options of a command.',
    'Exit codes: 0 done, 1 a problem was found or nothing was found, 2 wrong arguments,',
    '3 Redis is unavailable.',
  ]
}

function helpOf({ usage, summary, help }: Command): string[] {
  return [`Usage: ${usage}`, '', summary, '', ...indented([...help, ...COMMON_HELP])]
}

function indented(list: ReadonlyArray<readonly [string, string]>): string[] {
  return pairs(list).map((line) => `  ${line}`)
}
