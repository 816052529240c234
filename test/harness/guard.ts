// Nothing that a test starts outlives it. Every child's pid is noted here; what is left is killed by
// pid when this process exits, and by the watchdog when this process dies without a word.
import { startWatchdog, type Watchdog } from './watchdog.ts'

const pids = new Set<number>()
let watchdog: Watchdog | undefined

process.on('exit', () => {
  for (const pid of pids) signal(pid, 'SIGKILL')
})

/** Notes a child; the returned function forgets it, to be called once the child has exited. */
export function guard(pid: number): () => void {
  watchdog ??= startWatchdog()
  pids.add(pid)
  watchdog.add(pid)
  return () => {
    if (pids.delete(pid)) watchdog?.remove(pid)
  }
}

/** Sends a signal, and says whether the process was still there to receive it. */
export function signal(pid: number, name: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, name)
  } catch {
    return false
  }
}
