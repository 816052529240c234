// A Redis in a container. Testcontainers cannot pause or kill, and its restart loses the port. So
// these commands go to the engine through the client that Testcontainers found. If the test process
// is killed, Testcontainers' reaper removes the container, if there is a reaper. With an engine on
// another machine, a port is only assumed to be free.
import type { RedisHost } from './redis-process.ts'
import { loadTestcontainers, type StartedTestContainer } from './testcontainers.ts'

export async function redisContainer(
  image: string,
  port: number,
  args: readonly string[],
): Promise<RedisHost> {
  const { GenericContainer, getContainerRuntimeClient } = loadTestcontainers()
  const client = await getContainerRuntimeClient()
  let started: StartedTestContainer | undefined
  let paused = false

  const container = () => {
    if (!started) throw new Error('The Redis container was not started')
    return client.container.getById(started.getId())
  }

  async function resume(): Promise<void> {
    if (!paused) return
    await container().unpause()
    paused = false
  }

  return {
    host: client.info.containerRuntime.host,
    async start() {
      if (started) return void (await container().start())
      // A fixed outer port, so that clients find the server again after a restart.
      started = await new GenericContainer(image)
        .withExposedPorts({ container: 6379, host: port })
        .withCommand(['redis-server', '--save', '', '--appendonly', 'no', ...args])
        .start()
    },
    // The engine itself reports a failed start.
    failure: () => undefined,
    async pause() {
      await container().pause()
      paused = true
    },
    resume,
    async kill() {
      // Engines differ on whether a paused container can be killed.
      await resume()
      const { State } = await container().inspect()
      if (!State.Running) return
      await container().kill()
      await container().wait()
    },
    async remove() {
      if (!started) return
      await resume()
      await started.stop()
    },
  }
}
