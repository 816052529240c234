// Short texts for the responses of a case.
import type { ClientResponse } from './request.ts'

export const inWords = (response: ClientResponse): string =>
  response.failure ?? String(response.status)

/** A 4xx: the request was refused or has to wait, so the client knows that it did nothing. */
export const isRefusal = ({ status }: ClientResponse): boolean => status >= 400 && status < 500
