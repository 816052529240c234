// A shell that kills the remaining child processes when this process dies. A test runner ends a
// stuck worker with SIGKILL, and then no exit handler runs. The shell reads our pipe to its end,
// which comes with our death in any case, and then kills the processes on its list.
import { spawn } from 'node:child_process'
import { Socket } from 'node:net'

export interface Watchdog {
  add(pid: number): void
  remove(pid: number): void
  /** Ends the pipe, as the death of this process does. */
  close(): void
}

const script = `
  list=' '
  while read -r sign pid; do
    case $sign in
      +) list="$list$pid " ;;
      -) list="\${list%% $pid *} \${list#* $pid }" ;;
    esac
  done
  for pid in $list; do kill -KILL "$pid"; done
`

export function startWatchdog(): Watchdog {
  // Detached, because Ctrl-C in a terminal must not end it before us.
  const shell = spawn('sh', ['-c', script], { stdio: ['pipe', 'ignore', 'ignore'], detached: true })
  const { stdin } = shell
  // Without sh, or after the shell was killed, the exit handler remains.
  shell.on('error', () => {})
  stdin.on('error', () => {})
  shell.unref()
  if (stdin instanceof Socket) stdin.unref()
  return {
    add: (pid) => void stdin.write(`+ ${pid}\n`),
    remove: (pid) => void stdin.write(`- ${pid}\n`),
    close: () => void stdin.end(),
  }
}
