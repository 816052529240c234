// A gate that a test opens: "at the same time" is then a fact and not a matter of luck.

/** What comes to a closed gate waits there. */
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
