// Plays users who sign in to the console at a provider, and what can go wrong on the way.
import fs from 'node:fs'
import path from 'node:path'
import { audience, client, Issuer } from './issuer.mjs'

export async function signIn({ Server, load, open, view, check, same, text, accessible, below, folder, pictures, servers }) {
  const signed = await Issuer.start(true), opaque = await Issuer.start(false)
  const s = await Server.start('sign-in', (run) => {
    load(run)
    for (const [name, rights, group] of [['admins', 'admin', 'admins'], ['readers', 'read', 'readers']]) {
      for (const [i, issuer] of [signed, opaque].entries()) run('key', 'create', `${name} ${i}`, '--rights', rights, '--stores', '*', '--match-issuer', issuer.url, '--match-claim', 'groups', '--match-value', group)
    }
  }, '--access-log', ...[signed, opaque].flatMap((i) => ['--auth-oidc-issuer', i.url, '--auth-oidc-audience', i === signed ? audience : client, '--console-oidc', `${i.url}=${client}`]))
  servers.push(s)
  const proxy = await below(s)
  const also = [signed.url, opaque.url, opaque.tokens]
  const policyOf = async () => (await fetch(s.base + 'console/')).headers.get('content-security-policy').split('; ').at(-1)
  const button = (page, issuer) => page.getByRole('button', { name: `Sign in at ${issuer.url.slice(7)}` })

  // A provider that is away.
  const page = await open(s.base, {}, also)
  await view(page, s.base, '', 'input[name=key]')
  same('the policy while the providers are away', await policyOf(), `connect-src 'self' ${new URL(signed.url).origin} ${new URL(opaque.url).origin}`)
  await button(page, signed).click()
  await page.getByText(`${signed.url} does not answer the server`).waitFor()
  await accessible(page, 'sign-in at a provider')
  if (pictures) await page.screenshot({ path: path.join(pictures, 'provider-light.png') })
  for (const i of [signed, opaque]) i.open([s.base + 'console/', proxy.base + 'console/'])
  for (const end = Date.now() + 60_000; !(await policyOf()).includes(opaque.tokens.replace('/realms/x', '')) && Date.now() < end;) await new Promise((r) => setTimeout(r, 100))
  same('the policy has the origins of the providers and of their token endpoints, and nothing else', await policyOf(), `connect-src 'self' ${new URL(signed.url).origin} ${new URL(opaque.url).origin} http://localhost:${opaque.port}`)

  // begin leaves a page for a provider, up to the choice of the account.
  const begin = async (page, issuer, base, fragment = '') => {
    await page.goto('about:blank')
    await page.context().clearCookies() // the provider forgets the user
    await view(page, base, fragment, 'input[name=key]')
    await button(page, issuer).click()
    await page.getByRole('link', { name: 'refuse' }).waitFor()
  }
  const choose = (page, name) => page.getByRole('link', { name, exact: true }).click()

  // The whole flow, with a view to come back to.
  for (const [issuer, base] of [[signed, s.base], [signed, proxy.base], [opaque, s.base]]) {
    const what = `${issuer === signed ? 'an access token' : 'an ID token'}${base === s.base ? '' : ', below another path'}`
    const page = await open(base, {}, also)
    const asked = []
    page.on('request', (r) => asked.push({ url: r.url(), body: r.postData() ?? '' }))
    await begin(page, issuer, base, '#/?after=')
    const { redirect_uri, code_challenge_method, code_challenge, state, nonce, response_type, scope } = issuer.asked
    same(`${what}: what the provider is asked`, [redirect_uri, code_challenge_method, code_challenge.length, state.length >= 40, nonce.length >= 40, response_type, scope], [base + 'console/', 'S256', 43, true, true, 'code', 'openid'])
    await choose(page, 'anne')
    await page.locator('tbody tr').first().waitFor()
    same(`${what}: the address is that of the view`, page.url(), base + 'console/#/?after=')
    const token = await page.evaluate(() => sessionStorage.getItem('ostiary.key'))
    check(`${what}: the key of the tab is a token`, token.split('.').length === 3, token)
    const code = new URL(asked.find((r) => r.url.includes('code='))?.url ?? base).searchParams.get('code')
    check(`${what}: a code came`, code?.length > 20, asked)
    check(`${what}: the token is in no address`, asked.every((r) => !r.url.includes(token)), asked.map((r) => r.url))
    check(`${what}: the verifier is sent only with the code`, asked.filter((r) => r.body.includes('code_verifier=')).length === 1 && asked.find((r) => r.body.includes('code_verifier=')).url === issuer.tokens + '/token', asked)
    const where = await page.evaluate(async () => ({ page: document.documentElement.outerHTML, url: location.href, cookies: document.cookie, long: JSON.stringify({ ...localStorage }), databases: JSON.stringify(await indexedDB.databases()), caches: JSON.stringify(await caches.keys()), history: JSON.stringify(history.state), name: window.name, referrer: document.referrer }))
    for (const [place, found] of Object.entries(where)) check(`${what}: neither token nor code in ${place}`, !found.includes(token) && !found.includes(code) && !found.includes('code_verifier'), place)
    same(`${what}: the storage of the tab`, await page.evaluate(() => Object.keys(sessionStorage).sort()), ['ostiary.key', 'ostiary.signed-in'])
    same(`${what}: no cookie of the console`, (await page.context().cookies(base)).filter((c) => !c.path.startsWith('/interaction') && !/^_(session|interaction|grant)/.test(c.name)), [])
    check(`${what}: who has signed in, until when`, /anne, until \d/.test(await text(page, 'header')), await text(page, 'header'))
    const me = await (await fetch(s.base + 'ostiary/v1/me', { headers: { Authorization: 'Bearer ' + token } })).json()
    same(`${what}: the API about the token`, [me.caller, me.rights.includes('admin')], ['anne', true])
    await page.reload()
    await page.locator('tbody tr').first().waitFor()
    // Back does not send the code again.
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByLabel('Key').waitFor()
    same(`${what}: sign-out forgets everything`, await page.evaluate(() => sessionStorage.length), 0)
    await page.goto(`${base}console/?code=${code}&state=${state}`)
    await page.getByText('does not belong to a sign-in of this tab').waitFor()
    same(`${what}: the old answer leaves the address`, page.url(), base + 'console/')
    await page.context().close()
  }

  // What the provider refuses, and answers that are not those to this page.
  await begin(page, signed, s.base)
  await choose(page, 'refuse')
  await page.getByText(`${signed.url} refuses the sign-in: access_denied: no <b>entry</b> today`).waitFor()
  check('a refusal is text', await page.locator('main b').count() === 0, await page.content())
  same('and leaves the address', page.url(), s.base + 'console/')
  await accessible(page, 'a refused sign-in')
  if (pictures) await page.screenshot({ path: path.join(pictures, 'refused-light.png') })
  const wrong = async (name, change, expected) => {
    await begin(page, signed, s.base)
    signed.change = change
    await choose(page, 'anne')
    await page.locator('.trouble').waitFor()
    const got = await text(page, '.trouble')
    check(name, got.includes(expected), got)
    check(`${name}: no token`, await page.evaluate(() => sessionStorage.getItem('ostiary.key')) === null && page.url() === s.base + 'console/', page.url())
    signed.change = undefined
  }
  await wrong('another state', (p) => p.set('state', 'x'), 'does not belong to a sign-in of this tab')
  await wrong('another issuer', (p) => p.set('iss', 'https://evil.example'), 'comes from https://evil.example')
  await wrong('another code', (p) => p.set('code', 'x'), 'refuses the code: invalid_grant')
  await wrong('no code', (p) => p.delete('code'), 'has no code')
  for (const [how, expected] of [['away', 'does not answer'], ['html', 'answered 502 without JSON']]) {
    signed.how = how
    await begin(page, signed, s.base)
    await choose(page, 'anne')
    await page.getByText(expected).waitFor()
    check(`a token endpoint that is ${how}`, (await text(page, '.trouble')).includes(signed.url), await text(page, '.trouble'))
  }
  signed.how = 'well'
  // An ID token of another sign-in, as of a provider that mixes its answers up.
  await begin(page, signed, s.base)
  await page.route((u) => u.pathname === '/token', async (r) => {
    const answer = await r.fetch(), body = await answer.json(), parts = body.id_token.split('.')
    const claims = JSON.parse(Buffer.from(parts[1], 'base64url'))
    parts[1] = Buffer.from(JSON.stringify({ ...claims, nonce: 'x' })).toString('base64url')
    await r.fulfill({ response: answer, json: { ...body, id_token: parts.join('.') } })
  })
  await choose(page, 'anne')
  await page.getByText('has the nonce "x"').waitFor()
  same('another nonce: no token', await page.evaluate(() => sessionStorage.length), 0)
  await page.unrouteAll({ behavior: 'ignoreErrors' })

  // Tokens that the server does not accept, that no key matches, that may only read, and that end.
  await begin(page, signed, s.base)
  await choose(page, 'carl')
  await page.getByText('The server does not accept the access token').waitFor()
  check('a token for another audience', (await text(page, 'main')).includes('urn:other:api'), await text(page, 'main'))
  await begin(page, signed, s.base)
  await choose(page, 'otto')
  await page.locator('.trouble').waitFor()
  check('a token that no key matches', (await text(page, '.trouble')).startsWith('forbidden') && (await text(page, '.trouble')).includes('otto'), await text(page, '.trouble'))
  await page.getByRole('button', { name: 'Sign out' }).click()
  await begin(page, signed, s.base)
  await choose(page, 'rita')
  await page.getByRole('link', { name: 'acme' }).click()
  await page.getByText('The key may only read this store').waitFor()
  await page.getByRole('button', { name: 'Sign out' }).click()
  await begin(page, signed, s.base)
  await choose(page, 'brief')
  await page.locator('tbody tr').first().waitFor()
  await page.getByText('the sign-in has ended').waitFor({ timeout: 90_000 })
  await page.getByRole('button', { name: 'Sign in again' }).click()
  await page.getByText('Sign in again: you come back to this view.').waitFor()

  const log = fs.readFileSync(path.join(folder, 'sign-in.log'), 'utf8')
  check('neither code nor token is in the log of the server', !/code=|eyJ/.test(log) && log.includes('token refused'), log.slice(-2000))
  await page.context().close()
  await proxy.close()
  for (const i of [signed, opaque]) await i.stop()
}
