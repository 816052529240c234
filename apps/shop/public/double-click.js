// The double click: sends one order many times, with and without an idempotency key, and shows the
// rows.

import { ask } from './api.js'
import { customerHeaders } from './customer.js'
import { counted, euros, whole } from './format.js'
import { createHerd } from './herd.js'
import { showHistogram } from './histogram.js'

const form = document.querySelector('#double-click-form')
const select = document.querySelector('#ordered')
const story = document.querySelector('#double-click-story')

const STATUSES = {
  201: '201 Created',
  '201 replayed': '201 Created, replayed',
  409: '409 Conflict',
  none: '(no response)',
}

/** @param {any[]} teas @param {() => void} onDone called after each run */
export function startDoubleClick(teas, onDone) {
  const keyed = createSide(document.querySelector('.side.keyed'))
  const unkeyed = createSide(document.querySelector('.side.unkeyed'))
  select.replaceChildren(...teas.map(({ id, name }) => new Option(name, String(id))))
  select.value = '7'
  const reset = () => {
    for (const side of [keyed, unkeyed]) side.expect(clickOf(form).clicks)
  }
  reset()
  form.addEventListener('change', reset)
  form.addEventListener('submit', async (event) => {
    event.preventDefault()
    const click = clickOf(form)
    const controls = [...form.elements]
    for (const control of controls) control.disabled = true
    try {
      reset()
      // Puts the page of the tea into the cache. Without a purge it would be outdated after the
      // order.
      const page = `/api/products/${click.productId}`
      await ask(page)
      say(`Sending the order ${whole(click.clicks)} times with a key ...`)
      const withKey = await send(keyed, { ...click, keyed: true })
      const { body: tea } = await ask(page)
      say(`Sending the order ${whole(click.clicks)} times without a key ...`)
      const without = await send(unkeyed, { ...click, keyed: false })
      say(compare(withKey, without, tea))
    } catch (error) {
      say(error.message, true)
    } finally {
      for (const control of controls) control.disabled = false
      form.querySelector('button').focus({ preventScroll: true })
      onDone()
    }
  })
}

function clickOf(form) {
  const data = new FormData(form)
  return { productId: Number(data.get('productId')), clicks: Number(data.get('clicks')) }
}

async function send(side, click) {
  const options = { method: 'POST', body: click, headers: customerHeaders }
  const { body } = await ask('/api/lab/double-click', options)
  side.finish(body)
  return body
}

function compare(withKey, without, tea) {
  const rows = `${counted(withKey.rows, 'row', 'rows')} with the key, ${whole(without.rows)} without`
  const again =
    withKey.later === '201 replayed'
      ? 'The last click got the first response again.'
      : `The last click got ${STATUSES[withKey.later] ?? withKey.later}.`
  const stock = `With the key, the stock went from ${whole(withKey.stockBefore)} to ${whole(withKey.stockAfter)} tins`
  const page = `Right after the order, the cached page of the tea showed ${whole(tea.stock)} tins`
  return `${whole(withKey.clicks + 1)} clicks: ${rows}. ${again} ${stock}. ${page}.`
}

function say(text, trouble = false) {
  story.textContent = text
  story.classList.toggle('trouble', trouble)
}

function createSide(root) {
  const find = (name) => root.querySelector(`[data-${name}]`)
  const herd = createHerd(find('herd'))
  const count = (rows, clicks) => {
    find('count').textContent = whole(rows ?? 0)
    find('count').classList.toggle('idle', rows === undefined)
    find('unit').textContent = `${rows === 1 ? 'row' : 'rows'} for ${whole(clicks)} clicks`
  }
  return {
    expect(clicks) {
      count(undefined, clicks + 1)
      herd.show({ total: clicks + 1, filled: 0, answered: 0 })
      find('histogram').replaceChildren()
      find('rows').replaceChildren(line('None yet'))
    },
    finish({ clicks, statuses, later, rows, orders }) {
      const total = clicks + 1
      count(rows, total)
      herd.show({ total, filled: rows, answered: total })
      const counts = { ...statuses, [later]: (statuses[later] ?? 0) + 1 }
      showHistogram(find('histogram'), counts, total, (name) => STATUSES[name] ?? name)
      const more = rows - orders.length
      find('rows').replaceChildren(
        ...orders.map(row),
        ...(more > 0 ? [line(`and ${whole(more)} more`)] : []),
      )
    },
  }
}

function row({ id, product, quantity, totalCents, createdAt }) {
  const item = line(`No. ${id}`)
  const at = document.createElement('time')
  at.dateTime = createdAt
  at.textContent = new Date(createdAt).toLocaleTimeString('en-GB')
  item.append(cell(`${quantity} \u00d7 ${product}`), at, cell(euros(totalCents)))
  return item
}

function line(text) {
  const item = document.createElement('li')
  item.append(cell(text))
  return item
}

function cell(text) {
  const node = document.createElement('span')
  node.textContent = text
  return node
}
