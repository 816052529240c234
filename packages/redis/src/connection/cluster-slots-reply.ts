// Parses the reply to CLUSTER SLOTS. The server is not trusted, so each part is checked.

export interface SlotRange {
  readonly first: number
  readonly last: number
  /** `host:port` of the master, and then of the replicas. Never empty. */
  readonly names: readonly string[]
}

const SLOTS = 16_384

/** `host` replaces a host that the node does not know. Throws if no range is well-formed. */
export function readSlots(reply: unknown, host: string): SlotRange[] {
  const ranges = list(reply).flatMap((each) => {
    const [first, last, ...nodes] = list(each)
    if (!isSlot(first) || !isSlot(last)) return []
    const names = nodes.flatMap((node) => nameOf(node, host) ?? [])
    return names.length === 0 ? [] : [{ first, last, names }]
  })
  if (ranges.length === 0) throw new Error('CLUSTER SLOTS names no node')
  return ranges
}

function nameOf(node: unknown, host: string): string | undefined {
  const [own, port] = list(node)
  const known = own === null || own === undefined ? '' : String(own)
  const isPort = Number.isInteger(port) && Number(port) > 0 && Number(port) < 65_536
  return isPort ? `${known === '' || known === '?' ? host : known}:${port}` : undefined
}

function isSlot(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) >= 0 && Number(value) < SLOTS
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}
