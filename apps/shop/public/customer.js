// Who this browser is to the shop: a random name that it keeps. It stands in for a login, and is none.

const NAME = 'quiet-cup-customer'

/** What to send with every request about orders. */
export const customerHeaders = { 'x-customer': remembered() ?? invented() }

function remembered() {
  try {
    const customer = localStorage.getItem(NAME)
    return /^[\w.-]{1,64}$/.test(customer ?? '') ? customer : undefined
  } catch {
    return undefined
  }
}

function invented() {
  const bytes = crypto.getRandomValues(new Uint8Array(8))
  const customer = `visitor-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')}`
  try {
    localStorage.setItem(NAME, customer)
  } catch {
    // A browser that keeps nothing is somebody else after each reload.
  }
  return customer
}
