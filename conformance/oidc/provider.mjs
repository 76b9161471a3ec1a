// A provider of OpenID Connect: panva's oidc-provider, with clients that get tokens by
// client credentials, behind a listener that can fail in front of its keys.
import http from 'node:http'
import https from 'node:https'
import Provider from 'oidc-provider'
import { exportJWK, generateKeyPair } from 'jose'

export const audience = 'urn:ostiary:api'
export const otherAudience = 'urn:other:api'

// clients are the clients of every provider, and the claims of their tokens.
const clients = {
  admin: { groups: ['others', 'admins'] },
  reader: { realm_access: { roles: ['offline', 'reader'] } },
  writer: { realm_access: { roles: ['writer'] } },
  stranger: { groups: ['others'], 'realm_access.roles': ['writer'] },
  brief: { groups: ['admins'] }, // its tokens live for a second
}

export class IdentityProvider {
  // start starts a provider. With tls it listens with TLS, and its issuer has a path.
  static async start(alg, tls) {
    const p = new IdentityProvider()
    p.alg = alg
    p.path = tls ? '/realms/x' : ''
    p.tls = tls
    p.published = []
    p.fetches = 0
    p.how = 'well' // how it answers requests for keys, see answer
    await p.listen(0)
    p.url = `${tls ? 'https://localhost' : 'http://127.0.0.1'}:${p.port}${p.path}`
    await p.rotate()
    return p
  }

  async listen(port) {
    const answer = (req, res) => this.answer(req, res)
    this.server = this.tls ? https.createServer(this.tls, answer) : http.createServer(answer)
    await new Promise((resolve, reject) => this.server.once('error', reject).listen(port, '127.0.0.1', resolve))
    this.port = this.server.address().port
  }

  // stop closes the listener and its connections; listen(port) opens it again.
  async stop() {
    const closed = new Promise((resolve) => this.server.close(resolve))
    this.server.closeAllConnections()
    await closed
  }

  // rotate makes a new key, which signs from now on. The keys before are still published,
  // except with withdraw.
  async rotate({ withdraw = false, alg = this.alg } = {}) {
    this.alg = alg
    const pair = await generateKeyPair(alg, { extractable: true })
    const jwk = { ...(await exportJWK(pair.privateKey)), kid: `${alg}-${Date.now()}-${this.published.length}`, use: 'sig', alg }
    this.published = [jwk, ...(withdraw ? [] : this.published)]
    this.provider = new Provider(this.url, this.configuration())
    this.provider.proxy = Boolean(this.tls)
  }

  configuration() {
    return {
      jwks: { keys: this.published },
      scopes: [],
      clients: Object.keys(clients).map((client_id) => ({
        client_id, client_secret: `${client_id}-secret-of-more-than-32-bytes-for-the-client`,
        id_token_signed_response_alg: this.alg, grant_types: ['client_credentials'], redirect_uris: [], response_types: [],
      })),
      ttl: { ClientCredentials: (_ctx, _token, client) => (client.clientId === 'brief' ? 1 : 600) },
      extraTokenClaims: (_ctx, token) => clients[token.clientId],
      features: {
        clientCredentials: { enabled: true },
        devInteractions: { enabled: false },
        resourceIndicators: {
          enabled: true,
          defaultResource: () => undefined,
          getResourceServerInfo: (_ctx, resource) => ({ scope: '', audience: resource, accessTokenFormat: 'jwt', jwt: { sign: { alg: this.alg } } }),
        },
      },
      enabledJWA: { idTokenSigningAlgValues: ['RS256', 'PS256', 'ES256', 'EdDSA'] },
    }
  }

  answer(req, res) {
    if (!req.url.startsWith(this.path)) return res.writeHead(404).end()
    req.originalUrl = req.url
    req.url = req.url.slice(this.path.length) || '/'
    if (req.url === '/jwks') {
      this.fetches++
      switch (this.how) {
        case 'slow':
          return // until the client leaves
        case 'endless': { // as many bytes as the client takes
          res.writeHead(200, { 'Content-Type': 'application/json' })
          const space = Buffer.alloc(1 << 16, ' ')
          const send = () => { while (!res.destroyed && res.write(space)); }
          res.on('drain', send)
          return send()
        }
        case 'html':
          return res.writeHead(200, { 'Content-Type': 'text/html' }).end('<html>maintenance</html>')
        case 'failing':
          return res.writeHead(500).end()
        case 'redirecting':
          return res.writeHead(302, { Location: 'http://127.0.0.1:9/jwks' }).end()
      }
    }
    if (this.tls) req.headers['x-forwarded-proto'] = 'https'
    this.provider.callback()(req, res)
  }

  // token returns an access token of a client for a resource; without one, the provider
  // gives an opaque token.
  async token(client, resource = audience) {
    const body = new URLSearchParams({ grant_type: 'client_credentials' })
    if (resource) body.set('resource', resource)
    const headers = { Authorization: 'Basic ' + Buffer.from(`${client}:${client}-secret-of-more-than-32-bytes-for-the-client`).toString('base64'), 'Content-Type': 'application/x-www-form-urlencoded' }
    const response = await new Promise((resolve, reject) => {
      const req = (this.tls ? https : http).request(`${this.url}/token`, { method: 'POST', headers, ca: this.tls?.cert }, resolve)
      req.on('error', reject).end(body.toString())
    })
    let text = ''
    for await (const part of response) text += part
    if (response.statusCode !== 200) throw new Error(`the provider gives no token: ${response.statusCode} ${text}`)
    return JSON.parse(text).access_token
  }
}
