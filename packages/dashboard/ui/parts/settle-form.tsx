// The dialog that settles an idempotency key: it names the key, and says what will happen.

import { useEffect, useRef, useState } from 'preact/hooks'
import type { KeyRecordView } from '../../src/idempotency-page.ts'
import { type KeyRef, Refused, settle } from '../api.ts'
import { Text } from './key-text.tsx'

export interface Settling {
  readonly ref: KeyRef
  /** The record as the operator sees it. If it has changed, nothing is settled. */
  readonly record: KeyRecordView
  readonly how: 'release' | 'resolve'
}

interface SettleDialogProps {
  readonly settling: Settling | undefined
  /** Without a text: the operator has cancelled. */
  readonly onEnd: (text?: string, isBad?: boolean) => void
}

export function nameOf(ref: KeyRef): string {
  const name = 'job' in ref ? `job ${ref.job}` : ref.key
  return ref.scope === undefined ? name : `${name} of ${ref.scope}`
}

const EFFECTS: Readonly<Record<KeyRecordView['state'], string>> = {
  running:
    'An attempt runs now. It loses its lease, its result does not count, and it may still do its work.',
  completed: 'The stored result is gone.',
  uncertain: 'The last attempt may have done its work, or may still do it.',
  lapsed: 'The last attempt may have done its work, or may still do it.',
  released:
    'The last attempt failed, or an operator released the key. Part of the work may be done.',
}

/** The replies by which nothing is settled. */
const REFUSALS: Readonly<Record<string, string>> = {
  refused: 'nothing was changed, because the key has changed since you looked. See its new state.',
  absent: 'nothing was changed, because the key has no record any more.',
}

export function SettleDialog({ settling, onEnd }: SettleDialogProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  const [isRunning, setRunning] = useState(false)
  const [status, setStatus] = useState('')
  const [body, setBody] = useState('')
  const [typed, setTyped] = useState('')
  useEffect(() => {
    if (settling === undefined) dialog.current?.close()
    else if (!dialog.current?.open) dialog.current?.showModal()
    setStatus('')
    setBody('')
    setTyped('')
  }, [settling])
  const confirm = async ({ ref, record, how }: Settling): Promise<void> => {
    setRunning(true)
    const isJob = 'job' in ref
    const given = isJob ? { value: parsed(body) } : { status: Number(status), ...bodyOf(body) }
    const failure = await settle(ref, record, how === 'resolve' ? given : undefined).then(
      () => undefined,
      (error: Error) => error,
    )
    setRunning(false)
    if (failure === undefined) return onEnd(`Settled ${nameOf(ref)}.`)
    const { message } = failure
    const text =
      failure instanceof Refused
        ? (REFUSALS[message] ?? `nothing was changed: ${message}`)
        : `the request failed: ${message}. Check whether it took effect.`
    onEnd(`${nameOf(ref)}: ${text}`, true)
  }
  return (
    <dialog ref={dialog} onClose={() => settling && onEnd()} aria-labelledby="settle-title">
      {settling && (
        <form
          onSubmit={(event) => {
            event.preventDefault()
            void confirm(settling)
          }}
        >
          <Question settling={settling} />
          {settling.how === 'resolve' && !('job' in settling.ref) && (
            <label class="field">
              Status
              <input
                type="number"
                min="200"
                max="599"
                required
                value={status}
                placeholder="201"
                // The body comes after it. Enter must not settle the key with an empty one.
                onKeyDown={(event) => event.key === 'Enter' && event.preventDefault()}
                onInput={(event) => setStatus(event.currentTarget.value)}
              />
            </label>
          )}
          {settling.how === 'resolve' && (
            <label class="field">
              {'job' in settling.ref
                ? 'Result, as JSON'
                : 'Body: JSON is sent as JSON, other text as text'}
              <textarea
                rows={4}
                required={'job' in settling.ref}
                value={body}
                spellcheck={false}
                onInput={(event) => setBody(event.currentTarget.value)}
              />
            </label>
          )}
          {isGuarded(settling) && (
            <label class="field">
              Type “{settling.record.state}” to go on
              <input
                value={typed}
                autocomplete="off"
                onInput={(event) => setTyped(event.currentTarget.value)}
              />
            </label>
          )}
          {'job' in settling.ref && settling.how === 'resolve' && body && !isJson(body) && (
            <p class="problem">The result is not JSON. A text needs quotation marks.</p>
          )}
          <p class="buttons">
            <button type="button" onClick={() => onEnd()}>
              Cancel
            </button>
            <button
              class="danger"
              type="submit"
              disabled={
                isRunning ||
                (isGuarded(settling) && typed !== settling.record.state) ||
                (settling.how === 'resolve' && 'job' in settling.ref && !isJson(body))
              }
            >
              {settling.how === 'release' ? 'Release' : 'Set the result'}
            </button>
          </p>
        </form>
      )}
    </dialog>
  )
}

/** An attempt runs or has completed: the decision is against the record. */
const isGuarded = ({ record: { state } }: Settling): boolean =>
  state === 'running' || state === 'completed'

function Question({ settling: { ref, record, how } }: { settling: Settling }) {
  const isRelease = how === 'release'
  return (
    <>
      <h2 id="settle-title" class="dialog-title">
        {isRelease ? 'Release' : 'Set the result of'} <Text text={nameOf(ref)} />?
      </h2>
      <p>
        The key is {record.state}, attempt {record.attempt}. {EFFECTS[record.state]}
      </p>
      <p>
        {isRelease
          ? 'The next request or job with this key runs the handler. If the work was done before, it is done twice.'
          : 'Repeats get this result for a day, and the handler does not run. If the work was not done, it stays undone.'}
      </p>
    </>
  )
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

const parsed = (text: string): unknown => (isJson(text) ? JSON.parse(text) : text)

/**
 * As in the command line: an object or array is sent as JSON, everything else as text. The text
 * stays as it is, because JavaScript would round its large numbers.
 */
function bodyOf(text: string): object {
  if (text === '') return {}
  const type = typeof parsed(text) === 'object' ? 'application/json' : 'text/plain'
  return { body: text, headers: { 'content-type': `${type}; charset=utf-8` } }
}
