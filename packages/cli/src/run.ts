// Finds the command in the arguments, runs it, and turns errors into messages and exit codes.

import { parseArgs } from 'node:util'
import { type Command, type Options, parsedOptions, text, type Values } from './command.ts'
import { COMMANDS } from './commands/index.ts'
import { EXIT, type ExitCode, exitCodeOf, UsageError } from './errors.ts'
import { readUrl, type Settings } from './fleet.ts'
import { pairs } from './format.ts'
import type { Terminal } from './terminal.ts'

/**
 * npx finds the program by the name of its package. By the name of the program, npx would install
 * another package with that name if this one is not installed.
 */
const PROGRAM = 'npx @stampede/cli'

const COMMON: Options = [
  ['--redis URL', 'the fleet’s Redis; default REDIS_URL, then redis://127.0.0.1:6379'],
  ['--prefix TEXT', 'the prefix of redisStore; default stampede'],
  ['--sentinel NAME', 'the URL is that of a Sentinel, and NAME is the name of the master'],
  ['--timeout MS', 'how long to wait for a reply; for doctor: for all replies; default 5000'],
  ['--json', 'print JSON'],
]

/** Never rejects. */
export async function run(args: readonly string[], terminal: Terminal): Promise<ExitCode> {
  terminal.json = args.includes('--json')
  try {
    return await runCommand(args, terminal)
  } catch (error) {
    const { code, message } = error as { code?: string; message: string }
    const exit = exitCodeOf(error)
    terminal.fail(code ?? 'ERROR', message)
    if (exit === EXIT.usage) terminal.note(`See ${PROGRAM} --help.`)
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
  const options = parsedOptions([...COMMON, ...command.options])
  const parsed = parseArgs({
    args: args.slice(1),
    options: { ...options, help: { type: 'boolean', short: 'h' } },
    allowPositionals: true,
    tokens: true,
  })
  const { values, positionals: names, tokens } = parsed
  const named = tokens.flatMap((token) => (token.kind === 'option' ? [token.name] : []))
  for (const [at, each] of named.entries()) {
    const { type, multiple } = options[each] ?? {}
    // parseArgs would drop all values but the last.
    if (named.indexOf(each) < at && type === 'string' && multiple === false) {
      throw new UsageError(`--${each}: received twice; give it once`)
    }
  }
  if (values.help === true) {
    terminal.print({ usage: shown(command.usage) }, () => helpOf(command))
    return EXIT.ok
  }
  const settings = readSettings(values as Values, terminal)
  return command.run({ values: values as Values, names, settings, terminal })
}

const MAX_TIMEOUT_MS = 60_000

function readSettings(values: Values, { env }: Terminal): Settings {
  const timeoutMs = Number(values.timeout ?? 5_000)
  if (!Number.isInteger(timeoutMs) || timeoutMs < 10 || timeoutMs > MAX_TIMEOUT_MS) {
    throw new UsageError(`--timeout: received ${values.timeout}; use 10 to ${MAX_TIMEOUT_MS} ms`)
  }
  const { STAMPEDE_SECRET, STAMPEDE_ENCRYPTION_KEYS = '' } = env
  return {
    url: readUrl(String(values.redis ?? env.REDIS_URL ?? 'redis://127.0.0.1:6379')),
    prefix: String(values.prefix ?? 'stampede'),
    timeoutMs,
    sentinel: text(values, 'sentinel'),
    secret: STAMPEDE_SECRET,
    encryptionKeys: STAMPEDE_ENCRYPTION_KEYS.split(',').filter((key) => key !== ''),
  }
}

function overview(): string[] {
  const list = Object.entries(COMMANDS).map(([name, { summary }]) => [name, summary] as const)
  return [
    `Usage: ${PROGRAM} COMMAND [options]`,
    '',
    ...indented(list),
    '',
    'Options of every command:',
    ...indented(COMMON),
    '',
    `${PROGRAM} COMMAND --help has the options of a command.`,
    'Exit codes: 0 done, 1 a problem was found or nothing was found, 2 wrong arguments,',
    '3 Redis is unavailable.',
  ]
}

function helpOf({ usage, summary, options }: Command): string[] {
  return [`Usage: ${shown(usage)}`, '', summary, '', ...indented([...options, ...COMMON])]
}

const shown = (usage: string): string => usage.replace(/^stampede/, PROGRAM)

function indented(list: Options): string[] {
  const rows = list.map(([name, ...text]) => [name, text.join('; ')] as const)
  return pairs(rows).map((line) => `  ${line}`)
}
