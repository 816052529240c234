// The option `compress`: selects the form of a stored response for a client.

import type { StoredResponse } from '../entry/entry.ts'
import { acceptedCodings, type Coding, formFields, isCodable } from '../http/content-coding.ts'
import { type Fields, toFields } from '../http/fields.ts'
import { type RequestHeaders, requestField } from '../http/headers.ts'
import type { L1 } from '../l1/l1.ts'
import type { BodyKind, CapturedHead } from '../ports/exchange.ts'
import { codedBody, compressInBackground } from './coded-bodies.ts'

export interface CompressionRule {
  readonly minBytes: number
  readonly codings: readonly Coding[]
  /** Whether to compress a media type, which is in lower case and without parameters. */
  readonly matches: (type: string) => boolean
}

/** One representation of a stored response: compressed or not. */
export interface Form {
  readonly fields: Fields
  readonly body: Uint8Array
  /**
   * Type of the body that the handler sent. Absent for a compressed body, which middlewares get as
   * bytes.
   */
  readonly kind?: BodyKind | undefined
}

/**
 * The header fields of each form that a client has needed so far. Undefined: the response cannot be
 * compressed.
 */
type FormFields = Map<Coding | 'identity', Fields> | undefined

/**
 * Limit of cached Accept-Encoding values. Clients send few different ones. A full cache is cleared.
 */
const MOST_ACCEPTS = 100

export class Compression {
  readonly #rule: CompressionRule
  readonly #fields = new WeakMap<Fields, { readonly forms: FormFields }>()
  readonly #accepted = new Map<string, readonly Coding[]>()

  constructor(rule: CompressionRule) {
    this.#rule = rule
  }

  /** Whether a response with this head can have compressed forms. Then it needs `Vary`. */
  varies({ status, headers }: CapturedHead): boolean {
    return isCodable(status, toFields(headers), this.#rule.matches)
  }

  /** The best existing form for this client. A range is always a part of the uncompressed body. */
  formOf(stored: StoredResponse, headers: RequestHeaders): Form {
    const { body, kind } = stored
    const forms = this.#formsOf(stored)
    if (forms === undefined) return stored
    for (const coding of this.#wanted(stored, headers)) {
      const coded = codedBody(body, coding)
      if (coded !== undefined) return { fields: fieldsIn(forms, stored, coding), body: coded }
    }
    return { fields: fieldsIn(forms, stored, 'identity'), body, kind }
  }

  /**
   * The header fields of all forms that this client accepts, to compare its If-None-Match with
   * their ETags. The client may have another form than the one that it would get now. Forms that it
   * does not accept are left out. A proxy may send their ETags, and after a 304 it would give this
   * client a form that the client cannot decode.
   */
  fieldsOf(stored: StoredResponse, headers: RequestHeaders): readonly Fields[] {
    const forms = this.#formsOf(stored)
    if (forms === undefined) return []
    const accepted = ['identity', ...this.#acceptedBy(headers)] as const
    return accepted.map((form) => fieldsIn(forms, stored, form))
  }

  /** Compresses the body into the form that this client prefers, for later requests. */
  prepare(l1: L1, key: string, stored: StoredResponse, headers: RequestHeaders): void {
    const { body } = stored
    if (this.#formsOf(stored) === undefined) return
    const [best] = this.#wanted(stored, headers)
    // An entry outside L1 is decoded again for each hit, so its compressed form would be lost.
    if (best !== undefined && codedBody(body, best) === undefined && l1.holds(key, body)) {
      void compressInBackground(body, best, () => l1.recount(key, body, best))
    }
  }

  #wanted({ body }: StoredResponse, headers: RequestHeaders): readonly Coding[] {
    const isWhole = body.byteLength >= this.#rule.minBytes && headers.range === undefined
    return isWhole ? this.#acceptedBy(headers) : []
  }

  #acceptedBy(headers: RequestHeaders): readonly Coding[] {
    const accept = requestField(headers, 'accept-encoding')
    if (accept === undefined) return []
    const known = this.#accepted.get(accept)
    if (known !== undefined) return known
    if (this.#accepted.size === MOST_ACCEPTS) this.#accepted.clear()
    const accepted = acceptedCodings(accept, this.#rule.codings)
    this.#accepted.set(accept, accepted)
    return accepted
  }

  #formsOf({ status, fields }: StoredResponse): FormFields {
    const known = this.#fields.get(fields)
    if (known !== undefined) return known.forms
    const forms: FormFields = isCodable(status, fields, this.#rule.matches) ? new Map() : undefined
    this.#fields.set(fields, { forms })
    return forms
  }
}

function fieldsIn(
  forms: NonNullable<FormFields>,
  { fields }: StoredResponse,
  form: Coding | 'identity',
): Fields {
  const known = forms.get(form)
  if (known !== undefined) return known
  const created = formFields(fields, form === 'identity' ? undefined : form)
  forms.set(form, created)
  return created
}
