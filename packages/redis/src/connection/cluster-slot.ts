// The Cluster slot of a key: CRC16 (XMODEM) of its hash tag, as Redis Cluster specifies.

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
