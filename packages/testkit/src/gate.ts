// A gate that a test opens. Runs that wait at it are certain to be concurrent.

/** Code awaits `opened` until the test calls `open`. */
export interface Gate {
  readonly opened: Promise<void>
  open(): void
}

export function createGate(): Gate {
  let open: () => void = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { opened, open }
}
