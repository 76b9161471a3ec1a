// Plays callers with tokens of a real provider against a server:
//   node play.mjs OSTIARY FOLDER
// FOLDER must be empty but for tls.pem and tls.key, a certificate for localhost.
import { execFileSync, spawn } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { createHmac, createPublicKey } from 'node:crypto'
import { exportJWK, generateKeyPair, importJWK, SignJWT } from 'jose'
import { IdentityProvider, audience, otherAudience } from './provider.mjs'

const [program, folder] = process.argv.slice(2)
const data = path.join(folder, 'data')
let passed = 0, failed = 0

function check(name, good, got) {
  if (good) { passed++; return }
  failed++
  console.log(`oidc: ${name}: got ${typeof got === 'string' ? got : JSON.stringify(got)}`)
}

// until waits for a condition, at most a minute, and returns its last value.
async function until(condition) {
  const end = Date.now() + 60_000
  let last
  do {
    last = await condition()
    if (last) return last
    await new Promise((resolve) => setTimeout(resolve, 100))
  } while (Date.now() < end)
  return last
}

const key = (...args) => execFileSync(program, ['key', 'create', '--data', data, ...args], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).trim()

class Server {
  static async start(issuers) {
    const s = new Server()
    const args = ['serve', '--data', data, '--auth', 'keys', '--http', '127.0.0.1:0', '--grpc', 'off', '--metrics', 'off', '--audit-folder', path.join(folder, 'audit'), '--ca-cert', path.join(folder, 'tls.pem')]
    for (const url of issuers) args.push('--auth-oidc-issuer', url, '--auth-oidc-audience', audience)
    s.process = spawn(program, args, { stdio: ['ignore', 'pipe', fs.openSync(path.join(folder, 'log'), 'a')] })
    s.ended = new Promise((resolve) => s.process.once('exit', resolve))
    let out = ''
    s.process.stdout.setEncoding('utf8').on('data', (text) => { out += text })
    const at = await until(() => out.match(/serving http ([0-9.:]+)/) || (s.process.exitCode !== null && 'ended'))
    if (!at[1]) throw new Error('the server does not start: see ' + path.join(folder, 'log'))
    s.base = `http://${at[1]}/ostiary/v1`
    return s
  }

  async stop() {
    this.process.kill('SIGTERM')
    return this.ended
  }

  // ask sends a request with a token, and returns the status and the body.
  async ask(token, method, at, body) {
    const r = await fetch(this.base + at, { method, headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' }, body: body && JSON.stringify(body) })
    return { status: r.status, text: await r.text() }
  }

  async status(token) { return (await this.ask(token, 'GET', '/stores')).status }

  // watch opens a stream, and returns an object whose ended is a promise of the time of its end.
  async watch(token) {
    const r = await fetch(`${this.base}/stores/a/watch`, { headers: { Authorization: `Bearer ${token}` } })
    if (r.status !== 200) throw new Error(`watch: ${r.status} ${await r.text()}`)
    return { ended: (async () => { try { for await (const _ of r.body); } catch { /* a cut stream has ended as well */ } return Date.now() })() }
  }
}

const b64 = (value) => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url')
const parts = (token) => token.split('.').slice(0, 2).map((part) => JSON.parse(Buffer.from(part, 'base64url')))
// signed returns the claims of a token, with changes, signed with a private key.
const signed = async (token, changes, header, jwk) => new SignJWT({ ...parts(token)[1], ...changes }).setProtectedHeader({ ...parts(token)[0], ...header }).sign(await importJWK(jwk, header.alg ?? parts(token)[0].alg))

const provider = await IdentityProvider.start('RS256')
const second = await IdentityProvider.start('ES256', { key: fs.readFileSync(path.join(folder, 'tls.key')), cert: fs.readFileSync(path.join(folder, 'tls.pem')) })

// Half of the settings is no setting.
for (const args of [['--auth-oidc-issuer', provider.url], ['--auth-oidc-audience', audience], ['--auth-oidc-issuer', provider.url, '--auth-oidc-audience', ''], ['--auth-oidc-issuer', 'http://login.example.com', '--auth-oidc-audience', audience]]) {
  let code = 0
  try { execFileSync(program, ['serve', '--data', 'memory', '--auth', 'keys', '--http', '127.0.0.1:0', '--grpc', 'off', '--metrics', 'off', ...args], { stdio: 'ignore', timeout: 20_000 }) } catch (err) { code = err.status }
  check(`start with ${args.join(' ')}`, code === 2, code)
}

const root = key('root', '--stores', '*', '--rights', 'admin', '--expires', 'never')
key('admins', '--stores', '*', '--rights', 'admin', '--match-issuer', provider.url, '--match-claim', 'groups', '--match-value', 'admins')
key('readers', '--stores', 'a', '--rights', 'read', '--doors', 'native', '--match-issuer', provider.url, '--match-claim', '/realm_access/roles', '--match-value', 'reader')
key('writers', '--stores', 'a', '--rights', 'write', '--doors', 'native', '--match-issuer', second.url, '--match-claim', '/realm_access/roles', '--match-value', 'writer')

// The server starts while the providers are gone, and then finds them.
await provider.stop()
let server = await Server.start([provider.url, second.url])
await provider.listen(provider.port)
const admin = await provider.token('admin')
await provider.stop()
check('a token while the provider is gone', await server.status(admin) === 503, await server.status(admin))
await provider.listen(provider.port)
check('a token after the provider came', await until(async () => await server.status(admin) === 200), await server.status(admin))

// What the claims give.
const schema = 'model\n  schema 1.1\ntype user\ntype document\n  relations\n    define viewer: [user]\n'
const tuple = { add: [{ object: 'document:1', relation: 'viewer', subject: 'user:anne' }] }
let r = await server.ask(admin, 'POST', '/stores', { name: 'a', aliases: { native: 'a' } })
check('an administrator makes a store', r.status === 201, r)
r = await server.ask(admin, 'POST', '/stores/a/schemas', { dialect: 'openfga-dsl', source: schema })
check('and a schema', r.status === 200 || r.status === 201, r)
const reader = await provider.token('reader')
const question = { object: 'document:1', relation: 'viewer', subject: 'user:anne' }
r = await server.ask(reader, 'POST', '/stores/a/check', question)
check('a reader asks', r.status === 200, r)
r = await server.ask(reader, 'POST', '/stores/a/write', tuple)
check('a reader writes', r.status === 403, r)
const writer = await second.token('writer')
r = await server.ask(writer, 'POST', '/stores/a/write', tuple)
check('a writer of the other provider writes', r.status === 200, r)
r = await server.ask(writer, 'POST', '/stores', { name: 'b' })
check('and makes a store', r.status === 403, r)
const stranger = await provider.token('stranger')
r = await server.ask(stranger, 'POST', '/stores/a/check', question)
check('a caller without a key', r.status === 403 && r.text.includes(`${provider.url}#stranger`), r)
r = await server.ask(await second.token('admin'), 'POST', '/stores/a/check', question)
check('the groups of another issuer', r.status === 403, r)
r = await server.ask(await second.token('stranger'), 'POST', '/stores/a/check', question)
check('a claim whose name has the dots of a path', r.status === 403, r)

// Tokens that are refused. The provider answers well.
const stolen = await exportJWK((await generateKeyPair('RS256', { extractable: true })).privateKey)
const ours = provider.published[0]
const { n, e, kty } = stolen
const pem = createPublicKey({ key: ours, format: 'jwk' }).export({ type: 'spki', format: 'pem' })
const now = Math.floor(Date.now() / 1000)
const hmac = (head) => { const text = `${b64(head)}.${admin.split('.')[1]}`; return `${text}.${createHmac('sha256', pem).update(text).digest('base64url')}` }
const refused = {
  'another audience': await provider.token('admin', otherAudience),
  'an opaque token': await provider.token('admin', ''),
  'no algorithm': `${b64({ alg: 'none' })}.${admin.split('.')[1]}.`,
  'no algorithm, with a signature': `${b64({ ...parts(admin)[0], alg: 'none' })}.${admin.split('.').slice(1).join('.')}`,
  'the public key as a shared secret': hmac({ alg: 'HS256', typ: 'at+jwt' }),
  'the public key as a shared secret, with its kid': hmac({ ...parts(admin)[0], alg: 'HS256' }),
  'another algorithm of the same key': await signed(admin, {}, { alg: 'RS512' }, { ...ours, alg: undefined }),
  'a foreign kid': await signed(admin, {}, { kid: 'foreign' }, stolen),
  'a foreign key with a known kid': await signed(admin, {}, {}, stolen),
  'a foreign key in its header': await signed(admin, {}, { kid: 'foreign', jwk: { kty, n, e } }, stolen),
  'a foreign key at its address': await signed(admin, {}, { kid: 'foreign', jku: `${second.url}/jwks` }, stolen),
  'the key of another issuer': await signed(admin, {}, { alg: 'ES256', kid: second.published[0].kid }, second.published[0]),
  'an expired token': await signed(admin, { exp: now - 60 }, {}, ours),
  'a token of tomorrow': await signed(admin, { nbf: now + 86400, exp: now + 90000 }, {}, ours),
  'a token without an expiry': await signed(admin, { exp: undefined }, {}, ours),
  'a token without an audience': await signed(admin, { aud: undefined }, {}, ours),
  'a token without a subject': await signed(admin, { sub: undefined }, {}, ours),
  'a token without an issuer': await signed(admin, { iss: undefined }, {}, ours),
  'an unknown issuer': await signed(admin, { iss: 'https://login.example.com' }, {}, ours),
  'an issuer with a slash behind it': await signed(admin, { iss: provider.url + '/' }, {}, ours),
  'an audience that begins in the same way': await signed(admin, { aud: audience + '2' }, {}, ours),
  'a changed claim': `${admin.split('.')[0]}.${b64({ ...parts(admin)[1], groups: ['admins'], sub: 'root' })}.${admin.split('.')[2]}`,
  'a token of 20 KiB': await signed(admin, { filler: 'a'.repeat(20 << 10) }, {}, ours),
  'the name of a key': 'admins',
}
for (const [name, token] of Object.entries(refused)) {
  const status = await server.status(token)
  check(name, status === 401 || (name === 'a token of 20 KiB' && status === 431), status)
}
check('several audiences, one of them ours', await server.status(await signed(admin, { aud: ['x', audience] }, {}, ours)) === 200)
check('a good token after all of them', await server.status(admin) === 200)
{
  // Tokens with unknown keys cause few requests to the provider.
  const before = provider.fetches, start = Date.now()
  for (let i = 0; i < 50; i++) await server.status(await signed(admin, { i }, { kid: `unknown-${i}` }, stolen))
  const seconds = (Date.now() - start) / 1000
  check('requests for keys', provider.fetches - before <= seconds + 2, `${provider.fetches - before} in ${seconds} s`)
}

// A token ends with its watch. This takes half a minute, in which the others are played.
const brief = await provider.token('brief')
check('a token that lives for a second', await server.status(brief) === 200)
const briefWatch = await server.watch(brief)
let briefEnded = 0
briefWatch.ended.then((at) => { briefEnded = at })

// The provider changes its key, and signs with it from now on.
await provider.rotate()
let rotated = await provider.token('reader')
check('a token of a new key', await until(async () => await server.status(rotated) === 200), await server.status(rotated))
check('a token of the key before', await server.status(await signed(admin, { fresh: 1 }, {}, ours)) === 200)

// It withdraws the key before. The next unknown key shows that.
await provider.rotate({ withdraw: true })
rotated = await provider.token('reader')
check('a token of the only key', await until(async () => await server.status(rotated) === 200), await server.status(rotated))
check('a token of a withdrawn key', await server.status(await signed(admin, { fresh: 2 }, {}, ours)) === 401)

// It changes to another algorithm.
for (const alg of ['ES256', 'EdDSA', 'PS256', 'RS256']) {
  await provider.rotate({ withdraw: true, alg })
  rotated = await provider.token('reader')
  check(`a token after a change to ${alg}`, await until(async () => await server.status(rotated) === 200), await server.status(rotated))
}

// It does not answer requests for its keys any more. Tokens of the last good keys are
// accepted, also new ones; others cannot be judged.
for (const how of ['slow', 'endless', 'html', 'failing', 'redirecting', 'gone']) {
  const good = provider.published[0]
  const known = await provider.token('reader')
  await provider.rotate({ withdraw: true })
  const unknown = await provider.token('reader')
  if (how === 'gone') await provider.stop(); else provider.how = how
  const start = Date.now()
  // Keys are fetched at most once a second, and until then a token of an unknown key is refused.
  const judged = until(async () => { const got = await server.status(unknown); return got !== 401 && got })
  const [status, meanwhile] = await Promise.all([judged, server.status(known)])
  check(`${how}: a token of an unknown key`, status === 503, status)
  check(`${how}: a token of the last good key`, meanwhile === 200, meanwhile)
  check(`${how}: the request ends`, Date.now() - start < 30_000, `${Date.now() - start} ms`)
  r = await server.ask(unknown, 'POST', '/stores/a/write', tuple)
  check(`${how}: a write with a token of an unknown key`, r.status === 503, r)
  const again = await server.status(await signed(known, { again: how }, {}, good))
  check(`${how}: another token of the last good key`, again === 200, again)
  if (how === 'gone') await provider.listen(provider.port); else provider.how = 'well'
  check(`${how}: afterwards`, await until(async () => await server.status(unknown) === 200), await server.status(unknown))
}

// A revocation ends the access of tokens, and their streams, while they are still valid.
const revokedWatch = await server.watch(rotated)
r = await server.ask(root, 'DELETE', '/keys/readers')
const revokedAt = Date.now()
check('a key is revoked', r.status === 200 || r.status === 204, r)
r = await server.ask(rotated, 'POST', '/stores/a/check', question)
check('a token without its key', r.status === 403, r)
check('a watch ends on revocation', await revokedWatch.ended - revokedAt < 10_000, `after ${await revokedWatch.ended - revokedAt} ms`)

check('a watch ends on expiry', await until(() => briefEnded), briefEnded)
check('an expired token', await server.status(brief) === 401, await server.status(brief))

check('the server ends', await server.stop() === 0, 'an exit code other than 0')
const records = fs.readdirSync(path.join(folder, 'audit')).filter((name) => name.endsWith('.jsonl')).sort().flatMap((name) => fs.readFileSync(path.join(folder, 'audit', name), 'utf8').trim().split('\n').map((line) => JSON.parse(line)))
const made = records.find((record) => record.operation === 'CreateStore' && record.outcome === 'made')
check('the audit log names the caller', made?.caller?.id === `${provider.url}#admin` && made.caller.method === 'oidc' && made.caller.owner === provider.url, made)
check('the audit log has no token', !fs.readdirSync(path.join(folder, 'audit')).some((name) => fs.readFileSync(path.join(folder, 'audit', name), 'utf8').includes('eyJ')))
check('the log has no token', !fs.readFileSync(path.join(folder, 'log'), 'utf8').includes('eyJ'))
await provider.stop()
await second.stop()
console.log(`${passed} passed, ${failed} failed, 0 skipped`)
process.exit(failed ? 1 : 0)
