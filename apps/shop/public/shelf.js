// The shelf: the list of teas from the API, with its Cache-Status.

import { ask } from './api.js'
import { cup } from './cup.js'
import { duration, euros } from './format.js'

const tins = document.querySelector('#tins')
const receipt = document.querySelector('#receipt')
const filters = document.querySelector('#filters')

/** @param {(id: number) => void} onPick called with the id of a clicked tea */
export function startShelf(onPick) {
  tins.addEventListener('click', (event) => {
    const button = event.target.closest('button[data-id]')
    if (button !== null) onPick(Number(button.dataset.id))
  })
  filters.addEventListener('change', () => void show())
  filters.addEventListener('submit', (event) => event.preventDefault())
  return show()
}

let latest = 0

async function show() {
  const turn = ++latest
  const query = new URLSearchParams(new FormData(filters))
  for (const name of ['category', 'sort']) if (query.get(name) === '') query.delete(name)
  const path = `/api/products${query.size > 0 ? `?${query}` : ''}`
  try {
    const { body, cacheStatus, tookMs } = await ask(path)
    // Responses can overtake each other. Only the response to the last click is shown.
    if (turn !== latest) return body.products
    tins.replaceChildren(...body.products.map(tin))
    receipt.textContent = `GET ${path}  \u2192  ${cacheStatus ?? 'no Cache-Status'} in ${duration(tookMs)}`
    return body.products
  } catch (error) {
    const below = tins.children.length > 0 ? ' The list below is the last one that was loaded.' : ''
    if (turn === latest) receipt.textContent = error.message + below
    return []
  }
}

function tin(tea) {
  const button = document.createElement('button')
  button.type = 'button'
  button.className = 'tin'
  button.dataset.id = String(tea.id)
  const text = document.createElement('span')
  text.append(
    line('b', tea.name),
    line('small', tea.region),
    line('small', tea.description, 'note'),
  )
  const tag = line('span', euros(tea.priceCents), 'tag')
  tag.append(line('small', `${tea.stock} left`))
  button.append(cup(tea), text, tag, line('span', ': inspect', 'unseen'))
  const item = document.createElement('li')
  item.append(button)
  return item
}

function line(name, text, className = '') {
  const node = document.createElement(name)
  node.textContent = text
  if (className !== '') node.className = className
  return node
}
