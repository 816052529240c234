// The inspector: asks for one tea, once or every second, and lets the price and the database change.

import { ask, look } from './api.js'
import { watchPriceChange } from './price-change.js'
import { createReadout, tell } from './readout.js'

const tea = document.querySelector('#tea')
const askOnce = document.querySelector('#ask-once')
const askOn = document.querySelector('#ask-on')
const unplug = document.querySelector('#unplug')
const raise = document.querySelector('#raise')

const EVERY_MS = 1000
const UNPLUGGED =
  'The database is unplugged. What the cache has, it goes on serving: as long as it is fresh, and then ' +
  'stale for a minute, since old is better than nothing. What it has not, fails.'

/** @param {any} about what /api/lab/stats says @param {any[]} teas @param {(text: string) => void} announce */
export function startInspector(about, teas, announce) {
  const readout = createReadout(about)
  tea.replaceChildren(...teas.map(({ id, name }) => new Option(name, String(id))))
  tea.value = '7'
  unplug.checked = about.databaseConnected === false

  const path = () => `/api/products/${tea.value}`
  const once = async () => {
    const asked = path()
    const reply = await look(asked)
    return { reply, status: readout.show(asked, reply) }
  }
  const onceAloud = async () => {
    const { reply, status } = await once()
    announce(`${reply.status}, ${status.kind}`)
  }
  const pace = createPace(once)
  const pick = () => {
    readout.clear()
    return trying(onceAloud, pace)
  }

  tea.addEventListener('change', pick)
  askOnce.addEventListener('click', () => trying(onceAloud, pace))
  askOn.addEventListener('change', pace.follow)
  unplug.addEventListener('change', () => trying(pullPlug, pace))
  raise.addEventListener('click', () => raisePrice(path(), once, pace))
  void trying(once, pace)

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

/** Asks every second while the switch says so. */
function createPace(once) {
  let timer
  const pause = () => clearInterval(timer)
  const follow = () => {
    pause()
    if (!askOn.checked) return
    const beat = () => once().catch(stop)
    beat()
    timer = setInterval(beat, EVERY_MS)
  }
  const stop = (error) => {
    pause()
    askOn.checked = false
    tell(error.message, true)
  }
  return { pause, follow, stop }
}

/** Runs `work`; what goes wrong is told, and ends the asking. */
async function trying(work, pace) {
  try {
    await work()
  } catch (error) {
    pace.stop(error)
  }
}

async function pullPlug() {
  const connected = !unplug.checked
  try {
    await ask('/api/lab/database', { method: 'PUT', body: { connected } })
    tell(connected ? 'The database is back.' : UNPLUGGED)
  } catch (error) {
    unplug.checked = connected
    throw error
  }
}

async function raisePrice(path, once, pace) {
  const controls = [tea, askOnce, askOn, unplug, raise]
  pace.pause()
  for (const control of controls) control.disabled = true
  await trying(() => watchPriceChange(path, once, tell), pace)
  for (const control of controls) control.disabled = false
  raise.focus({ preventScroll: true })
  pace.follow()
}
