// Which form of a stored answer a client is sent, where `compress` is on.

import type { StoredResponse } from '../entry/entry.ts'
import { acceptedCodings, type Coding, fieldsOfForm, isCodable } from '../http/content-coding.ts'
import { type Fields, toFields } from '../http/fields.ts'
import { type RequestHeaders, requestField } from '../http/headers.ts'
import type { L1 } from '../l1/l1.ts'
import type { BodyKind, CapturedHead } from '../ports/exchange.ts'
import { codeBehind, codedBody } from './coded-bodies.ts'

export interface CompressionRule {
  readonly minBytes: number
  readonly codings: readonly Coding[]
  /** Whether a media type, in lower case and without parameters, is worth it. */
  readonly matches: (type: string) => boolean
}

export interface Form {
  readonly fields: Fields
  readonly body: Uint8Array
  /** Absent for a compressed body: layers get its bytes. */
  readonly kind?: BodyKind | undefined
}

/** The fields of each form that was asked for; undefined: it has one form only. */
type FormFields = Map<Coding | 'identity', Fields> | undefined

/** What clients send is one of few; a client that makes some up forgets them. */
const MOST_ACCEPTS = 100

export class Compression {
  readonly #rule: CompressionRule
  readonly #fields = new WeakMap<Fields, { readonly forms: FormFields }>()
  readonly #accepted = new Map<string, readonly Coding[]>()

  constructor(rule: CompressionRule) {
    this.#rule = rule
  }

  /** Whether an answer with this head has, or will have, coded forms: then it says that it varies. */
  varies({ status, headers }: CapturedHead): boolean {
    return isCodable(status, toFields(headers), this.#rule.matches)
  }

  /** The best form there is for this client. A part is always one of the whole as it is. */
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
   * The fields of every form that this client takes: it may have another one than it would get now. Of no other: a cache on the way
   * asks about what it has of everybody, and would give this client what is named to it.
   */
  fieldsOf(stored: StoredResponse, headers: RequestHeaders): readonly Fields[] {
    const forms = this.#formsOf(stored)
    if (forms === undefined) return []
    const taken = ['identity', ...this.#taken(headers)] as const
    return taken.map((form) => fieldsIn(forms, stored, form))
  }

  /** After an answer: makes what its client would have liked best, for those who come. */
  prepare(l1: L1, key: string, stored: StoredResponse, headers: RequestHeaders): void {
    const { body } = stored
    if (this.#formsOf(stored) === undefined) return
    const [best] = this.#wanted(stored, headers)
    // Of what is in Redis alone, each hit has a body of its own.
    if (best !== undefined && codedBody(body, best) === undefined && l1.holds(key, body)) {
      void codeBehind(body, best, () => l1.recount(key, body, best))
    }
  }

  #wanted({ body }: StoredResponse, headers: RequestHeaders): readonly Coding[] {
    const isWhole = body.byteLength >= this.#rule.minBytes && headers.range === undefined
    return isWhole ? this.#taken(headers) : []
  }

  #taken(headers: RequestHeaders): readonly Coding[] {
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
  const made = fieldsOfForm(fields, form === 'identity' ? undefined : form)
  forms.set(form, made)
  return made
}
