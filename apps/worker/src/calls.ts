// Calls between two processes over a message port, in place of a network client.

/** A child process as seen by its parent, or the parent as seen by the child. */
export interface Port {
  send(message: unknown): void
  onMessage(listener: (message: unknown) => void): void
}

/** Functions that the other side may call. Arguments and results are copied, not shared. */
export type Services = { readonly [name: string]: (...args: never[]) => unknown }

export type Caller<S extends Services> = <Name extends keyof S & string>(
  name: Name,
  ...args: Parameters<S[Name]>
) => Promise<Awaited<ReturnType<S[Name]>>>

interface Call {
  readonly id: number
  readonly name: string
  readonly args: readonly unknown[]
}

type Outcome =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly error: string }

/**
 * Serves the calls that arrive at `port`. If a service throws, its caller is rejected with the
 * message.
 */
export function serve<S extends Services>(port: Port, services: S): void {
  port.onMessage(async (message) => {
    const { id, name, args } = message as Call
    try {
      if (!Object.hasOwn(services, name)) throw new Error(`no service named ${name}`)
      const service = services[name] as (...args: unknown[]) => unknown
      port.send({ id, value: await service(...args) } satisfies Outcome)
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error)
      port.send({ id, error: why } satisfies Outcome)
    }
  })
}

/** Calls the services that `serve` offers at the other end of `port`. */
export function createCaller<S extends Services>(port: Port): Caller<S> {
  const open = new Map<number, (outcome: Outcome) => void>()
  let lastId = 0
  port.onMessage((message) => {
    const outcome = message as Outcome
    open.get(outcome.id)?.(outcome)
    open.delete(outcome.id)
  })
  return (name, ...args) =>
    new Promise((resolve, reject) => {
      lastId += 1
      open.set(lastId, (outcome) => {
        if ('error' in outcome) reject(new Error(outcome.error))
        else resolve(outcome.value as never)
      })
      port.send({ id: lastId, name, args } satisfies Call)
    })
}
