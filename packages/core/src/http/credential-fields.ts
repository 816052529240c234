// Credential fields: request fields that identify the caller, such as keys, tokens, and the user
// that a proxy names. The words in a field's name decide, because a list of full names is never
// complete.

const CALLER_WORDS: readonly RegExp[] = [
  // Words that count anywhere in a name: `x-vault-token`, `accesstoken`.
  /token|jwt|session|sessid|secret|passw|passphrase|passcode|credential|principal|bearer|cookie/,
  /authori[sz]|authenti|oauth|oidc|saml|identit|assertion|signature|impersonat|behalf/,
  /permission|entitlement|tenant|consumer|customer|account|merchant|subscription/,
  /organi[sz]ation|workspace|log[io]n|e-?mail|msisdn|mtls|ssl[-_]client/,
  // Short words, which count only as a whole part: `x-org-id`, not `x-organic` or `dlna.org`.
  /(?<![a-z0-9.])(dpop|sid|uid|otp|dn|sso|ldap|hmac|sudo|org|orgid|subject|keyid)(?![a-z0-9.])/,
  /(?<![a-z0-9.])(groups?|roles?|members?|claims?|client[-_]?id)(?![a-z0-9.])/,
  // Words that count at the beginning or end of a part: `userid`, `apikey`, `clientcert`.
  /(?<![a-z0-9])(user|auth(?!or(s|ity)?(?![a-z]))|cert)/,
  /(users?|auth|certs?|keys?)(?![a-z0-9])/,
]

/**
 * Parts of a name that identify the program or the address of a user, not the user, as in
 * `x-amz-user-agent` and `x-appengine-user-ip`.
 */
const AGENT_OR_ADDRESS = /user-?(agent|ip)(?![a-z])/g

/**
 * Fields that match `CALLER_WORDS` but identify no caller. Ordinary clients, proxies and platforms
 * send them with any GET.
 */
const EXCEPTIONS: ReadonlySet<string> = new Set([
  // The option `cookies` decides about the Cookie field.
  'cookie',
  // Browsers and media players.
  ...['sec-fetch-user', 'sec-websocket-key', 'sec-websocket-key1', 'sec-websocket-key2'],
  ...['x-playback-session-id', 'cmcd-session', 'x-forms_based_auth_accepted'],
  // CSRF tokens, which axios and Rails send with each GET. They identify a page, not a caller.
  ...['x-csrf-token', 'x-xsrf-token', 'csrf-token', 'xsrf-token', 'x-csrftoken'],
  ...['idempotency-key', 'x-idempotency-key', 'accept-signature'],
  // npm and kubectl: ids of one run of the command.
  ...['npm-session', 'npm-auth-type', 'kubectl-session'],
  // App Engine, Vercel, Netlify and Linkerd: ids of the deployment.
  ...['x-appengine-auth-domain', 'x-vercel-oidc-token', 'x-vercel-proxy-signature'],
  ...['x-vercel-proxy-signature-ts', 'x-nf-account-id', 'x-nf-account-tier', 'l5d-client-id'],
])

/** Whether a field of this lower-case name identifies the caller. */
export function identifiesCaller(name: string): boolean {
  if (EXCEPTIONS.has(name)) return false
  const rest = name.replace(AGENT_OR_ADDRESS, '')
  return CALLER_WORDS.some((words) => words.test(rest))
}
