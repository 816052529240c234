// Encryption of stored responses, if the options have keys: AES-256-GCM (NIST SP 800-38D). The
// additional data has the key of the record, so a response cannot be moved to another record.
//
//   magic (4)  key id (8)  IV (12)  ciphertext  tag (16)

import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'
import { optionError } from '../errors.ts'

/**
 * First bytes of a sealed frame. A frame that is not sealed never begins with NUL. The last byte is
 * the version of the format.
 */
const MAGIC = Buffer.from('\0SL\x01', 'latin1')
const ID_END = 12
const IV_END = 24
const TAG_BYTES = 16
const SHORTEST_KEY = 32

interface Key {
  /** Identifies the key in a sealed frame without revealing it. */
  readonly id: Buffer
  readonly key: Buffer
}

export class Seal {
  /** The first key encrypts. All keys decrypt. */
  readonly #keys: readonly Key[]

  /** `keys`: strings of at least 32 random characters. Throws `ERR_STAMPEDE_OPTION`. */
  constructor(keys: readonly string[]) {
    this.#keys = keys.map(derive)
  }

  get hasKeys(): boolean {
    return this.#keys.length > 0
  }

  /** Encrypts a frame. Without keys, returns it unchanged. */
  seal(recordKey: string, frame: Uint8Array): Uint8Array {
    const [current] = this.#keys
    if (current === undefined) return frame
    const iv = randomBytes(IV_END - ID_END)
    const cipher = createCipheriv('aes-256-gcm', current.key, iv, { authTagLength: TAG_BYTES })
    cipher.setAAD(additionalData(recordKey))
    const sealed = cipher.update(frame)
    const end = cipher.final()
    return Buffer.concat([MAGIC, current.id, iv, sealed, end, cipher.getAuthTag()])
  }

  /**
   * Decrypts a frame. Undefined if the encryption key is unknown, or if the frame was changed or
   * belongs to another record. A frame that is not sealed is returned as it is, so that encryption
   * can be turned on later.
   */
  open(recordKey: string, frame: Uint8Array): Uint8Array | undefined {
    const bytes = Buffer.from(frame.buffer, frame.byteOffset, frame.byteLength)
    if (!bytes.subarray(0, MAGIC.length - 1).equals(MAGIC.subarray(0, -1))) return frame
    if (!bytes.subarray(0, MAGIC.length).equals(MAGIC)) return undefined
    if (bytes.length < IV_END + TAG_BYTES) return undefined
    const id = bytes.subarray(MAGIC.length, ID_END)
    const key = this.#keys.find((known) => known.id.equals(id))
    return key && decrypt(key, recordKey, bytes)
  }
}

function decrypt({ key }: Key, recordKey: string, bytes: Buffer): Uint8Array | undefined {
  const iv = bytes.subarray(ID_END, IV_END)
  const cipher = createDecipheriv('aes-256-gcm', key, iv, { authTagLength: TAG_BYTES })
  cipher.setAAD(additionalData(recordKey))
  cipher.setAuthTag(bytes.subarray(-TAG_BYTES))
  try {
    return Buffer.concat([cipher.update(bytes.subarray(IV_END, -TAG_BYTES)), cipher.final()])
  } catch {
    return undefined
  }
}

/**
 * The additional data of a record: `MAGIC`, then the key of the record. `MAGIC` has a fixed length,
 * so two different keys never give the same data.
 */
function additionalData(recordKey: string): Buffer {
  return Buffer.concat([MAGIC, Buffer.from(recordKey)])
}

/** RFC 5869: derives the key and its id, so that the id reveals nothing about the key. */
function derive(text: string): Key {
  if (text.length < SHORTEST_KEY) {
    const fix = `use ${SHORTEST_KEY} or more random characters`
    throw optionError('idempotency.encryptionKeys', `${text.length} characters`, fix)
  }
  const part = (info: string, length: number): Buffer =>
    Buffer.from(hkdfSync('sha256', text, '', `stampede:idempotency:seal:1:${info}`, length))
  return { id: part('id', ID_END - MAGIC.length), key: part('key', 32) }
}
