// The program `stampede`: runs one command and sets the exit code.

import { run } from './run.ts'
import { Terminal } from './terminal.ts'

const { argv, env, stdin, stdout, stderr } = process
// The reader of a pipe may leave early, as `head` does.
stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1))
// Warnings of the library are for applications. The doctor reports the same causes.
process.removeAllListeners('warning')
const code = await run(argv.slice(2), new Terminal({ stdin, stdout, stderr, env }))
// A connection to a frozen server must not delay the end.
stdout.write('', () => process.exit(code))
