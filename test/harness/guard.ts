// Ends every process that a test starts. Each child's pid is recorded here. The remaining ones are
// killed by pid when this process exits, and by the watchdog when this process is killed.
import { startWatchdog, type Watchdog } from './watchdog.ts'

const pids = new Set<number>()
let watchdog: Watchdog | undefined

process.on('exit', () => {
  for (const pid of pids) signal(pid, 'SIGKILL')
})

/** Records a child. Call the returned function once the child has exited. */
export function guard(pid: number): () => void {
  watchdog ??= startWatchdog()
  pids.add(pid)
  watchdog.add(pid)
  return () => {
    if (pids.delete(pid)) watchdog?.remove(pid)
  }
}

/** Sends a signal, and returns whether the process still existed. */
export function signal(pid: number, name: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, name)
  } catch {
    return false
  }
}
