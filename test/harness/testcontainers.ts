// Testcontainers: its packages are in `containers/`, and are installed when the first Redis in
// Docker is started. The types it needs are declared here, so that `npm run types` works without
// them.
import { fileURLToPath } from 'node:url'
import { loadOnDemand } from '../../tools/on-demand.mjs'

export interface Testcontainers {
  readonly GenericContainer: new (image: string) => GenericContainer
  readonly getContainerRuntimeClient: () => Promise<ContainerRuntimeClient>
}

interface GenericContainer {
  withExposedPorts(port: { readonly container: number; readonly host: number }): this
  withCommand(command: string[]): this
  start(): Promise<StartedTestContainer>
}

export interface StartedTestContainer {
  getId(): string
  stop(): Promise<unknown>
}

interface ContainerRuntimeClient {
  readonly info: { readonly containerRuntime: { readonly host: string } }
  readonly container: { getById(id: string): EngineContainer }
}

/** A container of the engine's own client. */
interface EngineContainer {
  start(): Promise<unknown>
  pause(): Promise<unknown>
  unpause(): Promise<unknown>
  kill(): Promise<unknown>
  wait(): Promise<unknown>
  inspect(): Promise<{ readonly State: { readonly Running: boolean } }>
}

const FOLDER = fileURLToPath(new URL('containers', import.meta.url))

export const loadTestcontainers = (): Testcontainers =>
  loadOnDemand(FOLDER, 'testcontainers') as Testcontainers
