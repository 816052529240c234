// Waits for messages on another connection. `expect.poll` does not work here, because it needs the
// current test, and contracts may run side by side.

const EVERY_MS = 5

/** Resolves once `check` no longer throws. Rejects with its last error. */
export async function eventually(
  check: () => void | Promise<void>,
  withinMs: number = 20_000,
): Promise<void> {
  const deadline = performance.now() + withinMs
  for (;;) {
    try {
      return await check()
    } catch (error) {
      if (performance.now() > deadline) throw error
    }
    await new Promise((resolve) => setTimeout(resolve, EVERY_MS))
  }
}
