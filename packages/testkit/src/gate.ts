// A gate that a test opens, so that "at the same time" is certain and not a matter of luck.

/** Calls wait at a closed gate. */
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
