import { describe, expect, it } from 'vitest'
import { identifiesCaller } from './credential-fields.ts'

/** The names in a text, between spaces and line ends. */
const words = (text: string): string[] => text.trim().split(/\s+/)

describe('request fields that name the caller', () => {
  it.each([
    // Keys and tokens.
    ...words(`
      proxy-authorization x-authorization x-serverless-authorization dpop sudo api-key
      x-api-key apikey x-apikey x-goog-api-key x-rapidapi-key key ocp-apim-subscription-key
      x-functions-key x-ibm-client-id client_id client_secret x-access-key
      ok-access-passphrase x-rapidapi-proxy-secret access-token x-token token x-access-token
      x-auth-token accesstoken private-token job-token x-vault-token x-shopify-access-token
      x-amz-security-token x-jwt x-jwt-claims x-session-id x-session-token session sessionid
      x-sid cookie2 x-cookie x-original-cookie x-auth x-auth-key auth authtoken xauth
      x-oauth-scopes x-username x-password x-signature signature signature-input x-hmac
      npm-otp x-bearer stripe-account cf-access-client-secret cf-access-client-id
      sec-token-binding
    `),
    // Fields from a proxy that authenticates users.
    ...words(`
      remote-user x-remote-user remote_user remote-groups remote-email x-remote-group
      x-forwarded-user x-forwarded-email x-forwarded-groups x-forwarded-access-token
      x-forwarded-preferred-username x-auth-request-user x-auth-request-email x-userinfo
      cf-access-jwt-assertion cf-access-authenticated-user-email x-goog-iap-jwt-assertion
      x-goog-authenticated-user-email x-amzn-oidc-data x-amzn-oidc-identity
      x-ms-client-principal x-ms-client-principal-id x-ms-token-aad-access-token
      tailscale-user-login tailscale-user-name x-webauth-user x-authenticated-userid
      x-consumer-id x-consumer-username x-consumer-custom-id x-credential-identifier
      x-authentik-username x-pomerium-claim-email impersonate-user x-saml-subject
      x-appengine-user-email x-appengine-user-id x-msisdn x-hasura-role x-sso-id
    `),
    // Certificates.
    ...words(`
      x-forwarded-client-cert x-forwarded-tls-client-cert client-cert client-cert-chain
      x-client-cert x-arr-clientcert ssl-client-cert ssl-client-verify ssl-client-s-dn
      ssl_client_s_dn ssl-client-subject-dn x-ssl-client-serial x-client-dn
      x-amzn-mtls-clientcert x-amzn-mtls-clientcert-subject
    `),
    // Fields that name a user, an account or a tenant.
    ...words(`
      x-user-id x-user user userid x-customer-id x-account-id x-member-id x-tenant-id
      x-tenant tenant x-org-id x-scope-orgid openai-organization x-organisation
      x-workspace-id x-merchant-id x-roles x-on-behalf-of
    `),
  ])('include %s', (name) => expect(identifiesCaller(name)).toBe(true))

  it('include names that merely contain user-agent or user-ip', () => {
    expect(identifiesCaller('x-user-agent-token')).toBe(true)
    expect(identifiesCaller('x-user-id-and-user-agent')).toBe(true)
    expect(identifiesCaller('x-user-ipsum')).toBe(true)
  })
})

/**
 * Fields that ordinary clients and platforms send with a GET, in addition to Cookie and
 * Authorization. They identify no caller.
 */
const ORDINARY: Readonly<Record<string, readonly string[]>> = {
  'HTTP/2': words(':method :scheme :authority :path te priority'),
  Chrome: words(`
    host connection cache-control pragma sec-ch-ua sec-ch-ua-mobile sec-ch-ua-platform
    sec-ch-ua-full-version-list sec-ch-ua-arch sec-ch-ua-model sec-ch-ua-form-factors
    sec-ch-prefers-color-scheme sec-ch-viewport-width dpr device-memory downlink ect rtt
    save-data viewport-width width dnt upgrade-insecure-requests user-agent accept
    sec-fetch-site sec-fetch-mode sec-fetch-user sec-fetch-dest sec-fetch-storage-access
    sec-purpose purpose accept-encoding accept-language referer origin range if-range priority
    if-none-match if-modified-since sec-gpc sec-browsing-topics x-client-data
    attribution-reporting-eligible attribution-reporting-support available-dictionary
    dictionary-id sec-speculation-tags service-worker sec-websocket-key
    service-worker-navigation-preload access-control-request-method early-data
  `),
  'Safari and media players': words(`
    x-playback-session-id icy-metadata transfermode.dlna.org x-requested-with
    getcontentfeatures.dlna.org cmcd-object cmcd-request cmcd-session cmcd-status
  `),
  'mobile networks and their browsers': words(`
    x-wap-profile x-operamini-phone-ua x-operamini-features x-ucbrowser-ua device-stock-ua
    x-device-user-agent x-original-user-agent x-proxyuser-ip
  `),
  Office: words('x-office-major-version x-idcrl_accepted x-forms_based_auth_accepted'),
  'scripts in pages': words(`
    x-requested-with x-csrf-token x-xsrf-token x-csrftoken hx-request hx-target hx-current-url
    hx-trigger hx-boosted turbo-frame x-turbo-request-id x-pjax x-inertia x-inertia-version
    x-inertia-partial-data rsc next-url x-nextjs-data next-router-state-tree
    next-router-prefetch next-router-segment-prefetch x-up-mode apollographql-client-name
    apollographql-client-version apollo-require-preflight x-apollo-operation-name trpc-accept
    x-trpc-source x-livewire prefer
  `),
  'axios, curl, got, undici, okhttp, requests': words(`
    accept accept-encoding accept-language connection host user-agent sec-fetch-mode
    idempotency-key want-digest accept-charset expect from
  `),
  'npm and kubectl': words(`
    npm-command npm-scope npm-in-ci npm-session npm-auth-type pacote-version pacote-req-type
    kubectl-command kubectl-session
  `),
  SDKs: words(`
    x-amz-user-agent amz-sdk-invocation-id amz-sdk-request x-amz-date x-amz-content-sha256
    x-goog-api-client x-client-info x-ms-client-request-id x-ms-useragent
    x-stripe-client-user-agent x-stainless-lang x-grpc-web x-user-agent
    x-okta-user-agent-extended x-github-api-version
  `),
  proxies: words(`
    via forwarded x-forwarded-for x-forwarded-host x-forwarded-proto x-forwarded-port
    x-forwarded-server x-forwarded-prefix x-forwarded-scheme x-forwarded-ssl x-real-ip
    x-client-ip x-cluster-client-ip x-original-uri x-original-forwarded-for x-request-id
    x-request-start x-scheme x-varnish x-correlation-id x-unique-id x-bluecoat-via
    x-imforwards max-forwards x-envoy-attempt-count x-envoy-expected-rq-timeout-ms
    x-envoy-external-address x-envoy-internal x-envoy-peer-metadata x-envoy-peer-metadata-id
    x-envoy-decorator-operation x-envoy-original-path l5d-client-id l5d-dst-override
  `),
  AWS: words(`
    x-amzn-trace-id x-amzn-tls-version x-amzn-tls-cipher-suite x-amz-cf-id
    x-amzn-apigateway-api-id x-amzn-vpc-id x-amzn-waf-action cloudfront-forwarded-proto
    cloudfront-is-mobile-viewer cloudfront-is-desktop-viewer cloudfront-viewer-country
    cloudfront-viewer-address cloudfront-viewer-tls cloudfront-viewer-asn
    cloudfront-viewer-ja3-fingerprint cloudfront-viewer-http-version
  `),
  'Google Cloud': words(`
    x-cloud-trace-context x-appengine-country x-appengine-city x-appengine-region
    x-appengine-citylatlong x-appengine-user-ip x-appengine-https x-client-region
    x-appengine-default-version-hostname x-appengine-request-log-id x-appengine-timeout-ms
    x-appengine-auth-domain x-client-geo-location
  `),
  Azure: words(`
    x-azure-clientip x-azure-socketip x-azure-fdid x-azure-ref x-fd-healthprobe
    x-azure-requestchain x-arr-log-id x-arr-ssl client-ip disguised-host x-appservice-proto
    x-site-deployment-id was-default-hostname x-original-host x-waws-unencoded-url
    x-appgw-trace-id request-id request-context
  `),
  Cloudflare: words(`
    cf-connecting-ip cf-connecting-ipv6 cf-ipcountry cf-ipcity cf-ray cdn-loop cf-visitor
    cf-worker cf-ew-via cf-device-type true-client-ip cf-pseudo-ipv4 cf-timezone cf-iplatitude
    cf-bot-score cf-verified-bot cf-ja3-hash
  `),
  'Fastly, Akamai, Imperva, Sucuri': words(`
    fastly-client-ip fastly-ff fastly-ssl fastly-client fastly-orig-host
    fastly-orig-accept-encoding x-timer x-akamai-edgescape akamai-origin-hop
    x-akamai-device-characteristics x-akamai-config-log-detail incap-client-ip
    x-sucuri-clientip x-sucuri-country ali-cdn-real-ip eagleeye-traceid
  `),
  'Vercel, Netlify, Heroku, Fly, Render, Railway, DigitalOcean': words(`
    x-vercel-id x-vercel-ip-country x-vercel-ip-city x-vercel-deployment-url
    x-vercel-forwarded-for x-vercel-proxied-for x-vercel-proxy-signature
    x-vercel-proxy-signature-ts x-vercel-oidc-token x-vercel-ja4-digest x-vercel-sc-host
    x-nf-client-connection-ip x-nf-account-id x-nf-account-tier x-nf-site-id x-nf-request-id
    x-nf-deploy-context connect-time total-route-time fly-client-ip fly-region
    fly-forwarded-proto fly-request-id fly-forwarded-port rndr-id render-proxy-ttl
    x-railway-request-id x-railway-edge do-connecting-ip
  `),
  'tracers and monitors': words(`
    traceparent tracestate baggage b3 x-b3-traceid x-b3-spanid x-b3-sampled x-b3-parentspanid
    uber-trace-id sentry-trace x-datadog-trace-id x-datadog-tags x-datadog-parent-id
    x-datadog-sampling-priority x-datadog-origin sec-datadog newrelic x-newrelic-id
    x-newrelic-transaction x-newrelic-synthetics x-dynatrace x-dtpc x-dtreferer
    x-ruxit-forwarded-for elastic-apm-traceparent adrum adrum_1 singularityheader x-instana-t
    x-instana-s x-instana-l x-honeycomb-trace ot-tracer-traceid
    x-prometheus-scrape-timeout-seconds
  `),
}

describe('request fields of ordinary clients and platforms', () => {
  it.each(Object.entries(ORDINARY))('do not name the caller: %s', (_who, names) => {
    expect(names.filter(identifiesCaller)).toEqual([])
  })
})
