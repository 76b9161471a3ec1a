// A provider of OpenID Connect for users: panva's oidc-provider, with a page on which a user
// chooses an account. It can be away, or fail where it gives tokens.
import http from 'node:http'
import Provider from 'oidc-provider'

export const audience = 'urn:ostiary:api', client = 'ostiary-console'

// accounts are the users, with the groups of their tokens.
const accounts = { anne: ['admins'], rita: ['readers'], otto: ['others'], carl: ['admins'], brief: ['admins'] }

export class Issuer {
  // start opens the port. Until open is called, everything is answered with 503.
  static async start(signed) {
    const i = new Issuer()
    i.signed = signed // whether access tokens are signed, and for the API
    i.how = 'well' // how the token endpoint answers
    i.change = undefined // what changes the parameters of an answer to the console
    i.server = http.createServer((req, res) => i.answer(req, res))
    await new Promise((resolve) => i.server.listen(0, '127.0.0.1', resolve))
    i.port = i.server.address().port
    i.url = `http://127.0.0.1:${i.port}${signed ? '' : '/realms/x'}`
    // The token endpoint of the second one has another origin than its issuer.
    i.tokens = signed ? i.url : `http://localhost:${i.port}/realms/x`
    return i
  }

  // open lets users sign in at clients with these addresses.
  open(redirects) {
    const accountOf = (ctx) => ctx.oidc.account?.accountId ?? ctx.oidc.entities.AuthorizationCode?.accountId
    this.provider = new Provider(this.url, {
      clients: [{ client_id: client, token_endpoint_auth_method: 'none', grant_types: ['authorization_code'], response_types: ['code'], redirect_uris: redirects }],
      clientBasedCORS: () => true,
      pkce: { required: () => true },
      conformIdTokenClaims: false,
      claims: { openid: ['sub', 'groups', 'preferred_username'] },
      findAccount: (_ctx, id) => ({ accountId: id, claims: () => ({ sub: id, groups: accounts[id], preferred_username: id }) }),
      extraTokenClaims: (_ctx, token) => ({ groups: accounts[token.accountId] }),
      interactions: { url: (_ctx, i) => `${new URL(this.url).pathname.replace(/\/$/, '')}/interaction/${i.uid}` },
      loadExistingGrant: async (ctx) => {
        const grant = new ctx.oidc.provider.Grant({ clientId: client, accountId: ctx.oidc.session.accountId })
        grant.addOIDCScope('openid')
        grant.addResourceScope(audience, '')
        await grant.save()
        return grant
      },
      ttl: { AccessToken: (_ctx, token) => (token.accountId === 'brief' ? 5 : 600), IdToken: 600, Session: 600, Interaction: 600, Grant: 600, AuthorizationCode: 60 },
      cookies: { keys: ['a key of the test'] },
      features: {
        devInteractions: { enabled: false },
        resourceIndicators: {
          enabled: true, defaultResource: () => (this.signed ? audience : undefined), useGrantedResource: () => true,
          getResourceServerInfo: (ctx, resource) => ({ scope: '', audience: accountOf(ctx) === 'carl' ? 'urn:other:api' : resource, accessTokenFormat: 'jwt', jwt: { sign: { alg: 'RS256' } } }),
        },
      },
    })
  }

  async answer(req, res) {
    const path = new URL(this.url).pathname.replace(/\/$/, '')
    if (!this.provider || !req.url.startsWith(path)) return res.writeHead(this.provider ? 404 : 503).end()
    req.originalUrl = req.url
    req.url = req.url.slice(path.length) || '/'
    const at = new URL(req.url, this.url)
    if (at.pathname === '/.well-known/openid-configuration' && this.tokens !== this.url) {
      const chunks = [], end = res.end.bind(res) // the document, with another token endpoint
      res.write = (c) => { chunks.push(Buffer.from(c)); return true }
      res.end = (c) => {
        if (c) chunks.push(Buffer.from(c))
        const text = JSON.stringify({ ...JSON.parse(Buffer.concat(chunks)), token_endpoint: this.tokens + '/token' })
        res.setHeader('Content-Length', Buffer.byteLength(text))
        return end(text)
      }
    }
    if (at.pathname.startsWith('/interaction/')) {
      const login = at.searchParams.get('login')
      if (!login) {
        const { params } = await this.provider.interactionDetails(req, res)
        this.asked = params
        const link = (id, text) => `<p><a href="?login=${id}">${text}</a></p>`
        return res.writeHead(200, { 'Content-Type': 'text/html' }).end('<title>Sign in</title>' + Object.keys(accounts).map((id) => link(id, id)).join('') + link('refuse', 'refuse'))
      }
      return this.provider.interactionFinished(req, res, login === 'refuse' ? { error: 'access_denied', error_description: 'no <b>entry</b> today' } : { login: { accountId: login } })
    }
    if (at.pathname === '/token' && this.how !== 'well') {
      if (this.how === 'away') return req.socket.destroy()
      res.setHeader('Access-Control-Allow-Origin', '*')
      if (this.how === 'html') return res.writeHead(502, { 'Content-Type': 'text/html' }).end('<html>maintenance</html>')
    }
    if (this.change) { // the answer to the console
      const set = res.setHeader.bind(res)
      res.setHeader = (name, value) => {
        if (!/^location$/i.test(name) || !value.includes('code=')) return set(name, value)
        const to = new URL(value)
        this.change(to.searchParams)
        return set(name, to.href)
      }
    }
    this.provider.callback()(req, res)
  }

  async stop() {
    await new Promise((resolve) => { this.server.close(resolve); this.server.closeAllConnections() })
  }
}
