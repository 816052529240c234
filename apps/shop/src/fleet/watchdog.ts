// Kills the processes that the demo started when the demo itself dies. SIGKILL runs no exit
// handler, and a frozen process does not notice that its parent has gone. A shell reads our pipe to
// its end, which comes with our death in any case, and then kills the processes on its list.

import { spawn } from 'node:child_process'
import { Socket } from 'node:net'

const SCRIPT = `
  list=' '
  while read -r sign pid; do
    case $sign in
      +) list="$list$pid " ;;
      -) list="\${list%% $pid *} \${list#* $pid }" ;;
    esac
  done
  for pid in $list; do kill -KILL "$pid"; done
`

export interface Watchdog {
  /** Records a process. Call the returned function once it has ended. */
  guard(pid: number): () => void
}

export function startWatchdog(): Watchdog {
  const pids = new Set<number>()
  // Detached, because Ctrl-C in a terminal must not end it before the demo.
  const shell = spawn('sh', ['-c', SCRIPT], { stdio: ['pipe', 'ignore', 'ignore'], detached: true })
  const { stdin } = shell
  // Without `sh` only the exit handler remains.
  shell.on('error', () => {})
  stdin.on('error', () => {})
  shell.unref()
  if (stdin instanceof Socket) stdin.unref()
  process.on('exit', () => {
    for (const pid of pids) signal(pid, 'SIGKILL')
  })
  return {
    guard(pid) {
      pids.add(pid)
      stdin.write(`+ ${pid}\n`)
      return () => {
        if (pids.delete(pid)) stdin.write(`- ${pid}\n`)
      }
    },
  }
}

/** Sends a signal. A process that has ended is no error. */
export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch {
    // The process has ended.
  }
}
