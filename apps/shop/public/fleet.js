// Events that the lab of a fleet sends while a run is on.

/** @param {Record<string, (data: any) => void>} listeners by the name of the event */
export function connectFleet(listeners) {
  const source = new EventSource('/api/lab/events')
  for (const [name, listener] of Object.entries(listeners)) {
    source.addEventListener(name, ({ data }) => listener(JSON.parse(data)))
  }
}
