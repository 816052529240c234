// The customer of this browser: a random name in local storage, in place of a login.

const NAME = 'quiet-cup-customer'

/** Header fields of every request about orders. */
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
    // Without local storage the browser is a new customer after each reload.
  }
  return customer
}
