// The terminal of one run: text or JSON on stdout, progress and errors on stderr.

import { createInterface } from 'node:readline/promises'
import type { Readable, Writable } from 'node:stream'
import { styleText } from 'node:util'

import { printable } from './format.ts'

type Output = Writable & { readonly isTTY?: boolean; readonly columns?: number }
type Style = Parameters<typeof styleText>[0]

export interface Streams {
  readonly stdin: Readable & { readonly isTTY?: boolean }
  readonly stdout: Output
  readonly stderr: Output
  readonly env: Readonly<Record<string, string | undefined>>
}

export class Terminal {
  /** Set by `--json`. */
  json = false
  readonly #streams: Streams

  constructor(streams: Streams) {
    this.#streams = streams
  }

  get env(): Streams['env'] {
    return this.#streams.env
  }

  get stdin(): Streams['stdin'] {
    return this.#streams.stdin
  }

  /** Whether a person reads the output and can answer. */
  get isInteractive(): boolean {
    return this.#streams.stdin.isTTY === true && this.#streams.stdout.isTTY === true
  }

  get columns(): number {
    return this.#streams.stdout.columns ?? 100
  }

  /** Prints `value` with `--json`, otherwise the lines of `text`. */
  print(value: unknown, text: () => readonly string[]): void {
    const lines = this.json ? [escaped(JSON.stringify(value, asJson, 2))] : text()
    this.#streams.stdout.write(`${lines.join('\n')}\n`)
  }

  /** Writes text as it is. */
  write(text: string | Uint8Array): void {
    this.#streams.stdout.write(text)
  }

  /** Prints an error. With `--json` on stdout too, so that its reader always gets JSON. */
  fail(code: string, message: string): void {
    if (this.json) this.print({ error: { code, message } }, () => [])
    this.#streams.stderr.write(
      `${this.#styled('red', 'stampede:', this.#streams.stderr)} ${printable(message)}\n`,
    )
  }

  /** A note that is not part of the result. */
  note(message: string): void {
    this.#streams.stderr.write(`${message}\n`)
  }

  style(style: Style, text: string): string {
    return this.json ? text : this.#styled(style, text, this.#streams.stdout)
  }

  /** Asks a yes-or-no question. Anything but `yes` means no. */
  async confirm(question: string): Promise<boolean> {
    const { stdin, stderr } = this.#streams
    const reader = createInterface({ input: stdin, output: stderr })
    try {
      return (await reader.question(`${question} Type yes to continue: `)).trim() === 'yes'
    } finally {
      reader.close()
    }
  }

  /** A progress bar on stderr, or nothing if stderr is not a terminal. */
  progress(what: string): Progress {
    const { stderr } = this.#streams
    return new Progress(what, stderr.isTTY === true ? (text) => stderr.write(text) : undefined)
  }

  #styled(style: Style, text: string, stream: Output): string {
    const { NO_COLOR, FORCE_COLOR, TERM } = this.#streams.env
    const hasColours = FORCE_COLOR ? FORCE_COLOR !== '0' : stream.isTTY && TERM !== 'dumb'
    return hasColours && !NO_COLOR ? styleText(style, text, { validateStream: false }) : text
  }
}

const BAR_CELLS = 24
const DRAW_EVERY_MS = 100

export class Progress {
  readonly #what: string
  readonly #write: ((text: string) => void) | undefined
  #drawnAt = 0

  constructor(what: string, write: ((text: string) => void) | undefined) {
    this.#what = what
    this.#write = write
  }

  /** `total` undefined: unknown. */
  show(done: number, total: number | undefined): void {
    if (this.#write === undefined || Date.now() < this.#drawnAt + DRAW_EVERY_MS) return
    this.#drawnAt = Date.now()
    const count = done.toLocaleString('en')
    if (total === undefined) {
      this.#write(`\r\x1b[K${this.#what} ${count} keys`)
      return
    }
    const share = Math.min(1, done / Math.max(1, total))
    const bar = '█'.repeat(Math.round(share * BAR_CELLS)).padEnd(BAR_CELLS, '░')
    const of = total.toLocaleString('en')
    this.#write(
      `\r\x1b[K${this.#what} ${bar} ${Math.round(share * 100)} % (${count} of ${of} keys)`,
    )
  }

  clear(): void {
    if (this.#drawnAt > 0) this.#write?.('\r\x1b[K')
  }
}

/** JSON.stringify leaves these control characters as they are, and terminals obey them. */
function escaped(json: string): string {
  return json.replace(/[\x7f-\x9f]/g, printable)
}

function asJson(_name: string, value: unknown): unknown {
  return typeof value === 'bigint' ? value.toString() : value
}
