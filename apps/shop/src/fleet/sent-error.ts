// Errors as messages: a `Problem` keeps its status and title, and the details of others stay out.

import { Problem } from '../response.ts'
import type { SentError } from './messages.ts'

export function toSent(error: unknown): SentError {
  if (error instanceof Problem) {
    return { message: error.message, status: error.status, title: error.title }
  }
  return { message: error instanceof Error ? error.message : String(error) }
}

export function fromSent({ message, status, title }: SentError): Error {
  if (status === undefined || title === undefined) return new Error(message)
  return new Problem(status, title, message)
}
