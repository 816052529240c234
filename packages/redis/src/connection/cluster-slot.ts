// The slots of Redis Cluster: the slot of a key, and the nodes of each range of slots. The slot is
// the CRC16 (XMODEM) of the hash tag.

const SLOTS = 16_384
const POLYNOMIAL = 0x1021

const TABLE = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8
  for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ POLYNOMIAL : crc << 1
  return crc
})

export function slotOf(key: string): number {
  let crc = 0
  for (const byte of Buffer.from(hashTagOf(key))) {
    crc = ((crc << 8) & 0xffff) ^ (TABLE[(crc >> 8) ^ byte] ?? 0)
  }
  return crc % SLOTS
}

/**
 * The text between the first `{` and the next `}`, or the whole key if that text is empty or
 * missing.
 */
function hashTagOf(key: string): string {
  const begin = key.indexOf('{')
  const end = key.indexOf('}', begin + 1)
  return begin >= 0 && end > begin + 1 ? key.slice(begin + 1, end) : key
}

// Parses the reply to CLUSTER SLOTS. The server is not trusted, so each part is checked.

export interface SlotRange {
  readonly first: number
  readonly last: number
  /** `host:port` of the master, and then of the replicas. Never empty. */
  readonly names: readonly string[]
}

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
