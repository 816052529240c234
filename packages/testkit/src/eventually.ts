// Waiting for what is told on another connection. Not by `expect.poll`: that needs to know which test it is in, and
// contracts may run side by side.

const EVERY_MS = 5

/** Resolves once `check` does not throw any more; rejects with what it threw last. */
export async function eventually(
  check: () => void | Promise<void>,
  withinMs: number = 2_000,
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
