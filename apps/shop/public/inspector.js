// The inspector: asks for one tea, once or every second, and changes its price and the database.

import { ask, send } from './api.js'
import { watchPriceChange } from './price-change.js'
import { createReadout, showStory } from './readout.js'

const tea = document.querySelector('#tea')
const askOnce = document.querySelector('#ask-once')
const askOn = document.querySelector('#ask-on')
const unplug = document.querySelector('#unplug')
const raise = document.querySelector('#raise')

const EVERY_MS = 1000
const DISCONNECTED =
  'The database is disconnected. The cache still serves its responses: while they are fresh, and then ' +
  'stale for a minute. Requests for other pages fail.'

/**
 * @param {any} about the body of /api/lab/stats
 * @param {any[]} teas
 * @param {(text: string) => void} announce
 */
export function startInspector(about, teas, announce) {
  const readout = createReadout(about)
  tea.replaceChildren(...teas.map(({ id, name }) => new Option(name, String(id))))
  tea.value = '7'
  unplug.checked = about.databaseConnected === false

  const path = () => `/api/products/${tea.value}`
  const once = async () => {
    const asked = path()
    const reply = await send(asked)
    return { reply, status: readout.show(asked, reply) }
  }
  const onceAnnounced = async () => {
    const { reply, status } = await once()
    announce(`${reply.status}, ${status.kind}`)
  }
  const timer = createTimer(once)
  const pick = () => {
    readout.clear()
    return trying(onceAnnounced, timer)
  }

  tea.addEventListener('change', pick)
  askOnce.addEventListener('click', () => trying(onceAnnounced, timer))
  askOn.addEventListener('change', timer.follow)
  unplug.addEventListener('change', () => trying(switchDatabase, timer))
  raise.addEventListener('click', () => raisePrice(path(), once, timer))
  void trying(once, timer)

  return {
    /** Shows the tea with this number. */
    inspect(id) {
      if (tea.disabled) return
      tea.value = String(id)
      document.querySelector('#inspector').scrollIntoView()
      tea.focus({ preventScroll: true })
      void pick()
    },
  }
}

/** Asks every second while the switch is on. */
function createTimer(once) {
  let interval
  const pause = () => clearInterval(interval)
  const follow = () => {
    pause()
    if (!askOn.checked) return
    const request = () => once().catch(stop)
    request()
    interval = setInterval(request, EVERY_MS)
  }
  const stop = (error) => {
    pause()
    askOn.checked = false
    showStory(error.message, true)
  }
  return { pause, follow, stop }
}

/** Runs `work`. If it fails, shows the error and stops asking. */
async function trying(work, timer) {
  try {
    await work()
  } catch (error) {
    timer.stop(error)
  }
}

async function switchDatabase() {
  const connected = !unplug.checked
  try {
    await ask('/api/lab/database', { method: 'PUT', body: { connected } })
    showStory(connected ? 'The database is connected again.' : DISCONNECTED)
  } catch (error) {
    unplug.checked = connected
    throw error
  }
}

async function raisePrice(path, once, timer) {
  const controls = [tea, askOnce, askOn, unplug, raise]
  timer.pause()
  for (const control of controls) control.disabled = true
  await trying(() => watchPriceChange(path, once, showStory), timer)
  for (const control of controls) control.disabled = false
  raise.focus({ preventScroll: true })
  timer.follow()
}
