// A test runner ends a stuck worker with SIGKILL, when no exit handler runs. This small shell reads
// our pipe to its end, which comes with our death whatever its cause, and then kills what is still
// on its list.
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
  // Detached: Ctrl-C in a terminal must not end it before us.
  const shell = spawn('sh', ['-c', script], { stdio: ['pipe', 'ignore', 'ignore'], detached: true })
  const { stdin } = shell
  // Where there is no sh, or it was killed, the exit handler is what remains.
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
