// Plays a user of the console in a browser, and compares what the pages show with the answers
// of the command line:
//   node play.mjs OSTIARY DEMO FOLDER [PICTURES]
// DEMO is the folder of the example, FOLDER is empty. With PICTURES, pictures of all pages
// are written into that folder.
import { execFileSync, spawn } from 'node:child_process'
import fs from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import { gzipSync } from 'node:zlib'
import { chromium } from 'playwright-core'
import { identity } from './identity.mjs'
import { operate } from './operate.mjs'
import { operations } from './operations.mjs'
import { signIn } from './signin.mjs'
import { typing } from './typing.mjs'

const [program, demo, folder, pictures] = process.argv.slice(2)
const axe = fs.readFileSync(new URL('node_modules/axe-core/axe.min.js', import.meta.url), 'utf8')
let passed = 0, failed = 0

function check(name, good, got) {
  if (good) { passed++; return }
  failed++
  console.log(`console: ${name}: got ${typeof got === 'string' ? got : JSON.stringify(got)}`)
}
const same = (name, got, want) => check(name, JSON.stringify(got) === JSON.stringify(want), { got, want })

// A server with data, and its address.
class Server {
  static async start(name, prepare, ...flags) {
    const s = new Server()
    s.data = path.join(folder, name)
    s.run = (...args) => execFileSync(program, ['--data', s.data, ...args], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
    prepare(s.run)
    s.process = spawn(program, ['serve', '--data', s.data, '--http', '127.0.0.1:0', '--grpc', 'off', '--metrics', 'off', ...flags], { stdio: ['ignore', 'pipe', fs.openSync(path.join(folder, name + '.log'), 'a')] })
    s.ended = new Promise((resolve) => s.process.once('exit', resolve))
    let out = ''
    s.process.stdout.setEncoding('utf8').on('data', (text) => { out += text })
    for (const end = Date.now() + 60_000; !/serving http ([0-9.:]+)/.test(out); await new Promise((r) => setTimeout(r, 50))) {
      if (Date.now() > end || s.process.exitCode !== null) throw new Error('the server does not start: see ' + name + '.log')
    }
    s.base = `http://${out.match(/serving http ([0-9.:]+)/)[1]}/`
    return s
  }

  async stop() {
    this.process.kill('SIGTERM')
    return this.ended
  }

  // cli runs a command against the server; a denial is an answer, too.
  cli(secret, ...args) {
    try {
      return execFileSync(program, ['--server', this.base.replace(/\/$/, ''), ...args], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, OSTIARY_TOKEN: secret } })
    } catch (e) {
      if (e.stdout) return e.stdout
      throw e
    }
  }
}

const load = (run) => {
  run('store', 'create', 'acme')
  run('schema', 'write', path.join(demo, 'model.fga'))
  run('tuple', 'import', path.join(demo, 'tuples.yaml'))
}

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM || '/usr/bin/chromium', args: ['--no-sandbox', '--disable-dev-shm-usage'] })
const foreign = [], broken = []

// open returns a page of a fresh profile. It notes requests to other addresses than base and
// also, errors of the page and what its policy has blocked.
async function open(base, options = {}, also = []) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options })
  const page = await context.newPage()
  page.setDefaultTimeout(20_000)
  page.on('request', (r) => { if (![base, ...also].some((at) => r.url().startsWith(at))) foreign.push(r.url()) })
  page.on('pageerror', (e) => broken.push(e.stack))
  page.on('console', (m) => { if (m.type() === 'error' && !/Failed to load resource: (the server responded|net::ERR_(CONNECTION|EMPTY_RESPONSE))/.test(m.text())) broken.push(m.text()) })
  return page
}

// view opens a view by its URL and waits until its answer is there.
async function view(page, base, fragment, wait) {
  await page.goto(base + 'console/' + fragment)
  await page.locator(wait).first().waitFor()
}

const text = (page, selector) => page.locator(selector).first().innerText()
const texts = async (page, selector) => (await page.locator(selector).allInnerTexts()).map((t) => t.replace(/\s+/g, ' ').trim())

// accessible fails for each serious finding of axe, of all its rules or one.
async function accessible(page, name, rule) {
  await page.evaluate(axe)
  const found = await page.evaluate(async (rule) => (await globalThis.axe.run(document, { resultTypes: ['violations'], ...(rule && { runOnly: { type: 'rule', values: [rule] } }) })).violations.filter((v) => v.impact === 'serious' || v.impact === 'critical').map((v) => `${v.id}: ${v.nodes.map((n) => n.target.join(' ') + ' ' + n.failureSummary).slice(0, 3).join('; ')}`), rule)
  same(`axe: ${name}`, found, [])
}

const ask = (store, params) => `#/store/${encodeURIComponent(store)}/ask?${new URLSearchParams(params)}`
const at = (store, page, params = {}) => `#/store/${encodeURIComponent(store)}/${page}?${new URLSearchParams(params)}`

// pages opens each page of a server without keys, and compares its figures.
async function pages(s) {
  const page = await open(s.base)
  const list = s.cli('', 'store', 'list', '--json')
  await view(page, s.base, '', 'tbody tr')
  const id = /[0-9A-HJKMNP-TV-Z]{26}/.exec(list)[0]
  same('stores', await texts(page, 'tbody code'), [id])
  check('an open server needs no key', await page.getByText('Sign out').count() === 0, 'a sign-out')
  await page.getByRole('link', { name: 'acme' }).click()
  await page.getByRole('heading', { name: 'Ask' }).waitFor()
  check('a store opens with its own URL', page.url().endsWith(`#/store/${id}/ask`), page.url())

  // Ask by the form, with the keyboard.
  await page.getByLabel('Subject').fill('user:anne')
  await page.getByLabel('Relation').fill('can_view')
  await page.getByLabel('Object').fill('document:budget')
  await page.keyboard.press('Enter')
  await page.locator('.verdict').waitFor()
  for (const [subject, verdict, word] of [['user:anne', 'Allowed', 'allowed'], ['user:bob', 'Denied', 'denied'], ['user:eve', 'Denied', 'denied'], ['user:dora', 'Denied: undecided', 'undecided']]) {
    await view(page, s.base, ask(id, { kind: 'check', subject, relation: 'can_view', object: 'document:budget' }), `.verdict:has-text("${subject}")`)
    same(`check ${subject}`, await text(page, '.verdict strong'), verdict)
    const cli = s.cli('', 'explain', subject, 'can_view', 'document:budget')
    check(`the command line about ${subject}`, cli.startsWith(word), cli)
    // Each line of the command's explanation is a step of the page.
    const steps = cli.split('\n').slice(1).map((l) => l.trim()).filter((l) => /^[✓✗?]/.test(l)).map((l) => l.replace(/: (no .*)$/, '').replace(/ {2,}.*$/, ''))
    const shown = await texts(page, '.steps li')
    same(`number of steps for ${subject}`, shown.length, steps.length)
    steps.forEach((line, i) => check(`step ${i} for ${subject}`, shown[i]?.replace('⊘', '✓').replaceAll(' ', '').startsWith(line.replaceAll(' ', '').slice(0, 40)), { shown: shown[i], line }))
  }
  await view(page, s.base, ask(id, { kind: 'check', subject: 'user:eve', relation: 'can_view', object: 'document:budget' }), '.verdict:has-text("user:eve")')
  same('the failing frontier', await page.locator('.node.frontier').count(), 4)
  await view(page, s.base, ask(id, { kind: 'check', subject: 'user:anne', relation: 'can_view', object: 'document:budget' }), '.verdict:has-text("user:anne")')
  const nodes = await page.locator('svg .node .title').evaluateAll((all) => all.map((n) => n.lastChild.textContent))
  for (const n of ['✓ document:budget#can_view', '✓ folder:plans#viewer', '✓ folder:product#viewer', '✓ team:engineering#member', '✓ team:platform#member', 'user:anne', '✗ document:budget#blocked']) check(`the path has ${n}`, nodes.includes(n), nodes)
  await page.locator('svg .edge a').last().click()
  await page.getByRole('heading', { name: 'Tuples' }).waitFor()
  await page.locator('table.tuples tbody tr').first().waitFor()
  same('a step leads to its tuple', (await texts(page, 'table.tuples tbody tr')).length, 1)
  await page.goBack()
  await page.locator('.verdict:has-text("user:anne")').waitFor()

  await view(page, s.base, ask(id, { kind: 'objects', subject: 'user:carla', relation: 'can_edit', object: 'document' }), '.found li')
  same('objects', (await texts(page, '.found li')).sort(), s.cli('', 'list', 'objects', 'user:carla', 'can_edit', 'document').trim().split('\n').sort())
  await view(page, s.base, ask(id, { kind: 'subjects', subject: 'user', relation: 'can_view', object: 'document:roadmap' }), '.found li')
  same('subjects', (await texts(page, '.found li')).sort(), s.cli('', 'list', 'subjects', 'user', 'can_view', 'document:roadmap').trim().split('\n').sort())
  await view(page, s.base, ask(id, { kind: 'entitlements', subject: 'user:anne', object: 'document:budget folder:plans' }), 'tbody tr')
  same('entitlements', await page.locator('td.true').count(), s.cli('', 'entitlements', 'user:anne', 'document:budget', 'folder:plans').trim().split('\n').flatMap((l) => l.trim().split(/\s{2,}/)[1].split(' ')).length)

  await view(page, s.base, at(id, 'tuples'), 'table.tuples tbody tr')
  const read = JSON.parse(s.cli('', 'tuple', 'read', '--json')).tuples
  same('all tuples', (await texts(page, 'table.tuples tbody tr')).map((r) => r.split(' ').slice(0, 3).join(' ')), read.map((r) => `${r.object} ${r.relation} ${r.user}`))
  await page.getByLabel('Object').fill('document:budget')
  await page.getByRole('button', { name: 'Filter' }).click()
  await page.getByText('3 tuples').waitFor()
  check('the filter is in the URL', page.url().includes('object=document%3Abudget'), page.url())

  await view(page, s.base, at(id, 'model'), '.node.type')
  same('the graph of types', (await page.locator('svg .node .title').evaluateAll((all) => all.map((n) => n.lastChild.textContent))).sort(), ['document', 'folder', 'team', 'user'])
  check('the text of the model', (await page.locator('.cm-content').innerText()).includes('define can_view: viewer but not blocked'), 'another text')

  await view(page, s.base, at(id, 'time'), '.log > li')
  same('the log', (await page.locator('.log > li').count()), s.cli('', 'changes', '--json').trim().split('\n').length)
  await view(page, s.base, at(id, 'time', { subject: 'user', relation: 'can_view', object: 'document', from: '1', to: '2' }), '.found li')
  same('the difference', (await texts(page, '.found li')).filter((t) => t.startsWith('+')).length, s.cli('', 'diff', 'user', 'can_view', 'document', '--from', '1', '--to', '2').split('\n').filter((l) => l.startsWith('+')).length)
  await view(page, s.base, ask(id, { kind: 'check', subject: 'user:anne', relation: 'can_view', object: 'document:budget', at: '1' }), '.verdict')
  same('the past', await text(page, '.verdict strong'), 'Denied')
  for (const p of ['Tuples', 'Model', 'Time', 'What if', 'Ask']) {
    await page.getByRole('navigation', { name: 'Pages of the store' }).getByRole('link', { name: p, exact: true }).click()
    await page.getByRole('heading', { level: 1, name: p }).waitFor()
    check(`the past is visible on ${p}`, (await text(page, '.timeline')).includes('The past: revision 1'), await text(page, '.timeline'))
  }
  await page.getByRole('slider').focus()
  await page.keyboard.press('End')
  await page.getByText('now, revision 2').waitFor()
  check('the slider leads back to now', !page.url().includes('at='), page.url())

  const whatIf = { removed: 'user:bob blocked document:budget', questions: 'user:bob can_view document:budget\nuser:eve can_view document:budget' }
  await view(page, s.base, at(id, 'what-if', whatIf), 'tbody tr')
  same('what if', await texts(page, 'tbody tr'), ['user:bob can_view document:budget denied allowed', 'user:eve can_view document:budget denied denied'])
  check('what if, as the command line counts', s.cli('', 'what-if', '--remove', whatIf.removed, ...whatIf.questions.split('\n').flatMap((q) => ['--question', q])).includes((await text(page, '[aria-label=Result] p')).split('. Revision')[0]), await text(page, '[aria-label=Result] p'))
  await view(page, s.base, at(id, 'what-if', { added: 'one two', questions: 'a b c' }), '.trouble')
  check('a line that is no tuple', (await text(page, '.trouble')).includes('line 1, "one two": expected SUBJECT RELATION OBJECT'), await text(page, '.trouble'))

  await page.keyboard.press('Control+k')
  await page.getByRole('combobox', { name: 'Command' }).fill('go mod')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Model' }).waitFor()
  await view(page, s.base, ask(id, { kind: 'check', subject: 'user:anne', relation: 'nothing', object: 'document:budget' }), '.trouble')
  const direct = await (await fetch(`${s.base}ostiary/v1/stores/${id}/explain`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{"object":"document:budget","relation":"nothing","subject":"user:anne"}' })).json()
  same('an error as the API has it', await text(page, '.trouble'), `${direct.code} ${direct.message}`)
  await looks(s, id)
  await page.context().close()
  return id
}

// looks opens all pages light, dark and on a phone, and looks for findings of axe.
async function looks(s, id) {
  const views = {
    stores: ['', 'tbody tr'], allowed: [ask(id, { kind: 'check', subject: 'user:anne', relation: 'can_view', object: 'document:budget' }), '.verdict'],
    denied: [ask(id, { kind: 'check', subject: 'user:eve', relation: 'can_view', object: 'document:budget', at: '2' }), '.verdict'],
    entitlements: [ask(id, { kind: 'entitlements', subject: 'user:anne', object: 'document:budget folder:plans' }), 'tbody tr'],
    tuples: [at(id, 'tuples'), 'table.tuples tbody tr'], model: [at(id, 'model'), '.node.type'], time: [at(id, 'time', { at: '1' }), '.log > li'],
    whatif: [at(id, 'what-if', { removed: 'user:bob blocked document:budget', questions: 'user:bob can_view document:budget' }), 'tbody tr'],
  }
  await seen(s, views)
}

// seen opens views light, dark and on a phone, with a key and more in the storage of the tab if
// there is one, and looks for findings of axe.
async function seen(s, views, key, storage = {}) {
  for (const [look, options] of Object.entries({ light: { colorScheme: 'light' }, dark: { colorScheme: 'dark' }, phone: { viewport: { width: 390, height: 844 } } })) {
    const page = await open(s.base, options)
    if (key) await page.addInitScript((all) => Object.entries(all).forEach((one) => sessionStorage.setItem(...one)), { 'ostiary.key': key, ...storage })
    for (const [name, [fragment, wait]] of Object.entries(views)) {
      await view(page, s.base, fragment, wait)
      if (look !== 'phone') await accessible(page, `${name}, ${look}`, look === 'dark' ? 'color-contrast' : undefined)
      if (look === 'phone') check(`${name} fits a phone`, await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), await page.evaluate(() => document.documentElement.scrollWidth))
      if (pictures) await page.screenshot({ path: path.join(pictures, `${name}-${look}.png`) })
    }
    await page.context().close()
  }
}

// editing writes, undoes, and edits the model; it ends with the server gone in mid-edit.
async function editing(s, id) {
  const page = await open(s.base)
  await view(page, s.base, at(id, 'tuples', { object: 'document:budget' }), 'table.tuples tbody tr')
  check('read-only at first', await page.getByRole('button', { name: /^(Write|Remove)/ }).count() === 0, 'buttons that write')
  await page.getByRole('button', { name: 'Read-only' }).click()
  await page.getByLabel('New subject').fill('user:eve')
  await page.getByLabel('New relation').fill('viewer')
  await page.getByLabel('New object').fill('document:budget')
  await page.getByLabel('Reason').fill('réunion <b>')
  await page.getByRole('button', { name: 'Write' }).click()
  await page.getByText('wrote document:budget#viewer@user:eve, revision 3').waitFor()
  const written = s.cli('', 'changes', '--json').trim().split('\n').map((l) => JSON.parse(l)).at(-1)
  same('the reason is in the log', written.reason, 'réunion <b>')
  await page.getByRole('button', { name: 'Undo' }).click()
  await page.getByText('undone, revision 4').waitFor()
  check('an undone write', s.cli('', 'check', 'user:eve', 'can_view', 'document:budget').startsWith('denied'), 'allowed')
  await page.getByRole('button', { name: 'Remove document:budget#viewer@user:dora' }).click()
  await page.getByText('removed document:budget#viewer@user:dora, revision 5').waitFor()
  await page.getByRole('button', { name: 'Undo' }).click()
  await page.getByText('undone, revision 6').waitFor()
  check('an undone removal keeps its condition', s.cli('', 'tuple', 'read', '--json').includes('office_hours'), s.cli('', 'tuple', 'read', '--json'))
  await page.getByLabel('New subject').fill('user:eve')
  await page.getByLabel('New relation').fill('owner')
  await page.getByLabel('New object').fill('document:budget')
  await page.getByRole('button', { name: 'Write' }).click()
  await page.locator('.trouble').waitFor()
  check('a tuple that the model refuses', (await text(page, '.trouble')).startsWith('no_relation') || (await text(page, '.trouble')).startsWith('not_admitted'), await text(page, '.trouble'))
  same('what was typed stays', await page.getByLabel('New relation').inputValue(), 'owner')
  await accessible(page, 'tuples, editing')

  await page.getByRole('navigation', { name: 'Pages of the store' }).getByRole('link', { name: 'Model' }).click()
  const editor = page.locator('.cm-content')
  await editor.waitFor()
  await editor.click()
  await page.keyboard.press('Control+Home')
  for (let i = 0; i < 4; i++) await page.keyboard.press('ArrowDown')
  await page.keyboard.type('type report\n  relations\n  define reader: [usr]') // an editor keeps the indentation
  await page.locator('.trouble').waitFor()
  check('an error of the model', (await text(page, '.trouble')).includes('usr'), await text(page, '.trouble'))
  await page.locator('.cm-lint-marker-error').waitFor()
  const line = await page.locator('.cm-lintRange-error').first().innerText()
  check('the error is at its place', line.includes('usr'), line)
  check('an invalid model cannot be saved', await page.getByRole('button', { name: 'Save model' }).isDisabled(), 'it can')
  for (let i = 0; i < 4; i++) await page.keyboard.press('Backspace')
  await page.keyboard.type('user]')
  await page.getByText('The model is valid. It is not saved yet.').waitFor()
  await accessible(page, 'model, editing')
  await page.getByRole('button', { name: 'Save model' }).click()
  await page.getByText(/is the current one, revision 7/).waitFor()
  check('the saved model', s.cli('', 'schema', 'get').includes('define reader: [user]'), s.cli('', 'schema', 'get'))

  await view(page, s.base, at(id, 'tuples'), 'table.tuples tbody tr')
  if (await page.getByRole('button', { name: 'Read-only' }).count()) await page.getByRole('button', { name: 'Read-only' }).click()
  await page.getByLabel('New subject').fill('user:zoe')
  await page.getByLabel('New relation').fill('viewer')
  await page.getByLabel('New object').fill('document:budget')
  await s.stop()
  await page.getByRole('button', { name: 'Write' }).click()
  await page.locator('.trouble').waitFor()
  check('a server that is gone', (await text(page, '.trouble')).includes('the server does not answer'), await text(page, '.trouble'))
  same('nothing that was typed is lost', await page.getByLabel('New subject').inputValue(), 'user:zoe')
  await page.context().close()
}

// secrets signs in with keys, and looks for the key wherever it must not be.
async function secrets(s, key, reader, team) {
  const page = await open(s.base)
  await view(page, s.base, '', 'input[name=key]')
  check('without a key, only the form', await page.locator('table').count() === 0 && await page.locator('.trouble').count() === 0, await text(page, 'main'))
  await accessible(page, 'sign-in')
  if (pictures) await page.screenshot({ path: path.join(pictures, 'signin-light.png') })
  await page.getByLabel('Key').fill('wrong-ключ')
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.locator('.trouble').waitFor()
  check('a wrong key', (await text(page, '.trouble')).startsWith('bad_credentials'), await text(page, '.trouble'))
  await page.getByLabel('Key').fill(key)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.locator('tbody tr').first().waitFor()
  await page.getByRole('link', { name: 'acme' }).click()
  await page.getByRole('heading', { name: 'Ask' }).waitFor()
  const where = await page.evaluate(async () => ({ page: document.documentElement.outerHTML, url: location.href, cookies: document.cookie, long: JSON.stringify({ ...localStorage }), databases: JSON.stringify(await indexedDB.databases()), caches: JSON.stringify(await caches.keys()), history: JSON.stringify(history.state), name: window.name }))
  for (const [place, found] of Object.entries(where)) check(`no key in ${place}`, !found.includes(key), place)
  same('no cookie', await page.context().cookies(), [])
  same('nothing in long storage', where.long, '{}')
  same('the key is in the storage of the tab', await page.evaluate(() => sessionStorage.getItem('ostiary.key')), key)
  const other = await page.context().newPage()
  await view(other, s.base, '', 'input[name=key]')
  check('another tab has no key', await other.evaluate(() => sessionStorage.length) === 0, 'it has')
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByLabel('Key').waitFor()
  same('sign-out forgets the key', await page.evaluate(() => sessionStorage.length), 0)
  await page.getByLabel('Key').fill(reader)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.locator('tbody tr').first().waitFor()
  await page.getByRole('link', { name: 'acme' }).click()
  await page.getByRole('link', { name: 'Tuples' }).click()
  await page.locator('table.tuples tbody tr').first().waitFor()
  check('a key that may only read cannot switch to edit', await page.getByRole('button', { name: 'Read-only' }).isDisabled(), 'it can')
  same('and sees why', await page.locator('#reader').innerText(), 'The key may only read this store')
  check('the page repeats it', await page.getByText('Read-only: the key has no right write on this store.').count() === 1, await text(page, 'main'))
  same('the commands have no editing', await page.evaluate(() => { dispatchEvent(new KeyboardEvent('keydown', { key: 'k', ctrlKey: true })); return new Promise((r) => setTimeout(() => r([...document.querySelectorAll('[role=option]')].map((o) => o.textContent).filter((t) => /edit/.test(t))), 300)) }), [])
  await page.keyboard.press('Escape')
  await accessible(page, 'a key that may only read')
  if (pictures) await page.screenshot({ path: path.join(pictures, 'reader-light.png') })
  const direct = await fetch(s.base + 'ostiary/v1/me?name=demo', { headers: { Authorization: 'Bearer ' + reader } })
  same('the API about this key', await direct.json(), { method: 'key', caller: 'reader', rights: ['read'], administers: false })
  for (const secret of ['', 'wrong']) same(`the API without a good key ${secret}`, (await fetch(s.base + 'ostiary/v1/me', { headers: secret ? { Authorization: 'Bearer ' + secret } : {} })).status, 401)
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByLabel('Key').fill(team)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByText('There is no store here that you may read').waitFor()
  await page.getByRole('button', { name: 'Read-only' }).click()
  await page.getByText('The key may not create a store called demo').waitFor()
  check('a key for other names cannot make the demo', await page.getByRole('button', { name: 'Create a store with the demo' }).isDisabled(), 'it can')
  await page.getByLabel('Name of a new store').fill('team-<b>x')
  await page.getByRole('button', { name: 'Create a store with the demo' }).click()
  await page.locator('.verdict:has-text("Allowed")').waitFor()
  check('with a name of the key it can', s.cli(team, 'store', 'list', '--json').includes('team-<b>x') || s.cli(team, 'store', 'list', '--json').includes('team-\\u003cb\\u003ex'), s.cli(team, 'store', 'list', '--json'))
  await page.context().close()
}

// first plays the first minutes of a new user on an empty server: the demo by one click, then
// its figures, many questions, files of each format, two tabs with one tuple, and a new model.
async function first(s) {
  const page = await open(s.base)
  await view(page, s.base, '', 'h1')
  await page.getByText('There is no store here that you may read').waitFor()
  check('an empty server is read-only at first', await page.getByRole('button', { name: /^Create/ }).count() === 0, 'buttons that create')
  await page.getByRole('button', { name: 'Read-only' }).click()
  await accessible(page, 'an empty server')
  if (pictures) await page.screenshot({ path: path.join(pictures, 'empty-light.png') })
  await page.getByRole('button', { name: 'Create a store with the demo' }).click()
  await page.locator('.verdict:has-text("Allowed")').waitFor()
  const id = /store\/([^/]+)/.exec(page.url())[1]
  same('the demo is that of the command', s.cli('', 'tuple', 'read', '--json').match(/"user"/g).length, 10)
  await page.getByRole('link', { name: 'Stores' }).click()
  await page.locator('tbody tr').waitFor()
  const stats = (await (await fetch(s.base + 'ostiary/v1/stores?details=true')).json()).stores[0]
  same('the row of a store', (await page.locator('tbody td').allInnerTexts()).map((t) => t.split('\n')[0]), ['demo', '10', '2', 'loaded', 'read, write, schema, admin', '', stats.created.replace('T', ' ').replace(/\.\d+Z/, ' UTC'), id])

  const questions = ['user:anne can_view document:budget', 'user:bob can_view document:budget', 'user:dora can_view document:budget', 'user:carla can_edit document:roadmap']
  await view(page, s.base, ask(id, { kind: 'batch', questions: questions.join('\n') }), 'tbody tr')
  same('many at once, as the command line', (await texts(page, 'tbody td:nth-child(2)')).map((t) => t.includes('allowed')), questions.map((q) => s.cli('', 'check', ...q.split(' ')).startsWith('allowed')))
  await accessible(page, 'many at once')
  await page.getByRole('link', { name: 'Why: user:bob' }).click()
  await page.locator('.verdict:has-text("user:bob")').waitFor()
  check('each of them has a why at its revision', page.url().includes('at=2'), page.url())
  await view(page, s.base, ask(id, { kind: 'batch', questions: 'user:anne can_view' }), '.trouble')
  check('a line that is no question', (await text(page, '.trouble')).includes('line 1') && (await text(page, '.trouble')).includes('expected SUBJECT RELATION OBJECT'), await text(page, '.trouble'))

  // Files of each format; the last one of each is wrong.
  await view(page, s.base, at(id, 'tuples'), 'table.tuples tbody tr')
  const choose = (name, content) => page.setInputFiles('input[type=file]', { name, mimeType: 'text/plain', buffer: Buffer.from(content) })
  const csv = 'user_type,user_id,user_relation,relation,object_type,object_id,condition_name,condition_context\n'
  const files = [
    ['a.csv', csv + 'user,"a,""b""",,viewer,folder,csv,,\nuser,d,,viewer,document,csv,office_hours,"{""opens"":1,""closes"":2}"\n', 2],
    ['a.json', JSON.stringify([{ user: 'user:a', relation: 'viewer', object: 'folder:json' }]), 1],
    ['a.jsonl', '{"user":"user:a","relation":"viewer","object":"folder:jsonl"}\n\n{"user":"team:x#member","relation":"viewer","object":"folder:jsonl"}\n', 2],
    ['a.yaml', fs.readFileSync(path.join(demo, 'tuples.yaml'), 'utf8').replaceAll('document:budget', 'document:yaml').split('# Bob')[1].replace(/^.*\n/, ''), 2],
  ]
  let revision = 2
  for (const [name, content, n] of files) {
    await choose(name, content)
    await page.getByRole('button', { name: `Import ${n} tuple` }).click()
    await page.getByText(`imported ${n} tuple${n === 1 ? '' : 's'} of ${name}, all new`).waitFor()
    revision++
    fs.writeFileSync(path.join(folder, name), content)
    const again = s.cli('', 'tuple', 'import', path.join(folder, name), '--on-duplicate', 'ignore')
    check(`${name} has the tuples that the command line reads`, again.includes('nothing changed'), again)
  }
  await page.getByRole('button', { name: 'Undo' }).click()
  await page.getByText(`undone, revision ${revision + 1}`).waitFor()
  const before = s.cli('', 'tuple', 'read', '--json')
  for (const [name, content, what] of [
    ['b.csv', csv + 'user,a,,viewer,folder,x\n', 'line 2: 6 fields, expected 8'],
    ['b.csv', 'user,rel\n', 'line 1: no column is called'],
    ['b.json', '[\n{"user":"user:a","relation":"viewer","object":"folder:x"},\n{"user":"user:a","relation":"viewer","object":"folder:y","conditoin":{}}]', 'line 3: the tuple has the unknown member "conditoin"'],
    ['b.json', '[\n{"user":"user:a","relation":"viewer","object":"folder:x"},\n{"user"', 'line 3: '],
    ['b.yaml', '- user: user:a\n  relation: viewer\n  object: document:x\n  condition: {name: office_hours, context: {opens: 12345678901234567890}}\n', 'line 1: the context has an integer'],
    ['b.jsonl', '{"user":"user:a","relation":"viewer","object":"folder:x"}\n{"user"', 'line 2: '],
    ['b.yaml', '- user: user:a\n  relation: viewer\n  object: [\n', 'line '],
    ['b.txt', 'x', 'expected a name that ends in'],
    ['<img src=x onerror=harm()>.csv', csv, 'the file has no tuple'],
  ]) {
    await choose(name, content)
    await page.getByText('Nothing was imported from').waitFor()
    const got = await page.locator('.drop .trouble').innerText()
    check(`${name}: ${what}`, got.includes(what), got)
  }
  await choose('c.yaml', '- {user: user:q, relation: viewer, object: folder:c}\n- user: user:q\n  relation: nothing\n  object: folder:c\n')
  await page.getByRole('button', { name: 'Import 2 tuples' }).click()
  await page.getByText('c.yaml: line 2: not_admitted').waitFor()
  check('an import that the model refuses is not there by half', (await page.locator('.drop .trouble').innerText()).endsWith('Nothing was imported.') && s.cli('', 'tuple', 'read', '--json') === before, await page.locator('.drop .trouble').innerText())
  await accessible(page, 'tuples, importing')

  // A file that is dropped, while the connection breaks.
  await page.route('**/import?*', (r) => r.abort('connectionreset'))
  await page.evaluate(() => {
    const data = new DataTransfer()
    data.items.add(new File(['{"user":"user:a","relation":"viewer","object":"folder:dropped"}\n'], 'dropped.jsonl'))
    document.querySelector('.drop').dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }))
  })
  await page.getByRole('button', { name: 'Import 1 tuple of dropped.jsonl' }).click()
  await page.getByText('It is not known whether tuples 1 to 1 are written').waitFor()
  await page.unroute('**/import?*')
  await page.getByRole('button', { name: 'Import 1 tuple of dropped.jsonl' }).click()
  await page.getByText('imported 1 tuple of dropped.jsonl, all new').waitFor()

  // 12,000 rows, of which few are in the page. The third step of the second import is wrong.
  const many = (n, of, last) => [...Array.from({ length: n }, (_, i) => ({ user: `user:u${i}`, relation: 'member', object: `team:${of}${i % 50}` })), ...last].map((t) => JSON.stringify(t)).join('\n')
  await choose('many.jsonl', many(12_000, 't', []))
  await page.getByRole('button', { name: 'Import 12,000 tuples' }).click()
  await page.getByText('imported 12,000 tuples of many.jsonl, all new').waitFor()
  await choose('half.jsonl', many(10_000, 'h', [{ user: 'user:x', relation: 'nothing', object: 'team:x' }]))
  await page.getByRole('button', { name: 'Import 10,001 tuples' }).click()
  await page.getByText('Tuples 1 to 10000 of 10001 are written, the others are not.').waitFor()
  check('what is there by half is said, with the line', (await page.locator('.drop .trouble').innerText()).includes('half.jsonl: line 10001: not_admitted'), await page.locator('.drop .trouble').innerText())
  await view(page, s.base, at(id, 'tuples', { object: 'team', relation: 'member' }), 'table.tuples tbody tr')
  const region = page.getByRole('region', { name: 'Tuples' })
  const end = page.getByText(/^220\d\d tuples, revision/)
  for (const stop = Date.now() + 60_000; !(await end.count()) && Date.now() < stop; await page.waitForTimeout(20)) await region.evaluate((e) => { e.scrollTop = e.scrollHeight })
  same('all rows by scrolling', await end.count(), 1)
  check('few rows are in the page', await page.locator('table.tuples tbody tr').count() < 150, await page.locator('table.tuples tbody tr').count())
  await region.evaluate((e) => { e.scrollTop = e.scrollHeight })
  await page.waitForTimeout(200)
  const lastRow = (await texts(page, 'table.tuples tbody tr:not(.space)')).at(-1)
  check('the last row is in sight', await page.locator('table.tuples tbody tr:not(.space)').last().evaluate((r) => { const a = r.getBoundingClientRect(), b = r.closest('.scroll').getBoundingClientRect(); return a.bottom <= b.bottom + 1 && a.top >= b.top }), lastRow)
  await accessible(page, 'many rows')

  // Two tabs with the same tuple.
  const filter = at(id, 'tuples', { object: 'document:budget' })
  await view(page, s.base, filter, 'table.tuples tbody tr')
  const other = await page.context().newPage()
  await view(other, s.base, filter, 'table.tuples tbody tr')
  await other.getByRole('button', { name: 'Read-only' }).click()
  const rows = await page.locator('table.tuples tbody tr').count()
  await other.getByRole('button', { name: 'Remove document:budget#blocked@user:bob' }).click()
  await other.getByText('removed document:budget#blocked@user:bob').waitFor()
  await page.getByRole('button', { name: 'Remove document:budget#blocked@user:bob' }).click()
  await page.getByText('tuple_missing').waitFor()
  await page.getByText(`${rows - 1} tuples, revision`).waitFor()
  s.cli('', 'tuple', 'write', 'user:dora', 'viewer', 'document:budget', '--condition', 'office_hours', '--context', '{"opens":1,"closes":2}', '--on-duplicate', 'replace')
  await page.getByRole('button', { name: 'Remove document:budget#viewer@user:dora' }).click()
  await page.getByText('Nothing was removed: another caller has changed').waitFor()
  check('a tuple that was changed elsewhere stays', s.cli('', 'tuple', 'read', '--json').includes('"closes":2'), 'it is gone')

  // The model: completion, the graph and tests of what is typed, and what it would change.
  await view(page, s.base, at(id, 'model', { tests: 'user:anne can_view document:budget\nnot user:eve can_view document:budget' }), '.node.type')
  await page.getByText('All 2 tests pass.').waitFor()
  await page.locator('.cm-content').click()
  await page.keyboard.press('Control+Home')
  for (let i = 0; i < 4; i++) await page.keyboard.press('ArrowDown')
  await page.keyboard.type('type report\n  relations\n  define reader: [team#me')
  await page.locator('.cm-tooltip-autocomplete').waitFor()
  same('completion after #', await texts(page, '.cm-tooltip-autocomplete li'), ['member'])
  await page.waitForTimeout(200) // the editor takes no choice in the first 75 ms
  await page.keyboard.press('ArrowDown')
  await page.locator('.cm-tooltip-autocomplete li[aria-selected=true]').waitFor()
  await page.keyboard.press('Enter')
  await page.keyboard.type(']')
  await page.getByText('The model is valid. It is not saved yet.').waitFor()
  await page.locator('svg .node .title:has-text("report")').waitFor()
  check('the graph is that of the edited model', await page.getByRole('group', { name: 'Types and relations of the edited model' }).count() === 1, 'another one')
  check('nothing is saved', !s.cli('', 'schema', 'get').includes('report'), 'it is')
  await accessible(page, 'model, with tests')
  await page.getByRole('link', { name: 'What would it change?' }).click()
  await page.getByRole('heading', { name: 'What if' }).waitFor()
  const proposed = await page.getByLabel('Another model').inputValue()
  check('the edited model is proposed', proposed.includes('define reader: [team#member]'), proposed)
  await page.getByLabel('Another model').fill(proposed.replace('viewer but not blocked', 'editor but not blocked'))
  await page.getByRole('textbox', { name: 'Questions' }).fill(questions.join('\n'))
  await page.getByRole('button', { name: 'Try it' }).click()
  await page.getByText(/4 of 4 asked: 0 gained, \d lost/).waitFor()
  fs.writeFileSync(path.join(folder, 'proposed.fga'), proposed.replace('viewer but not blocked', 'editor but not blocked'))
  const asked = s.cli('', 'what-if', '--proposed', path.join(folder, 'proposed.fga'), ...questions.flatMap((q) => ['--question', q]))
  check('the proposed model, as the command line counts', asked.includes((await text(page, '[aria-label=Result] p')).split('. Revision')[0]), { asked, page: await text(page, '[aria-label=Result] p') })
  await accessible(page, 'what if, with a model')
  await view(page, s.base, at(id, 'model', { tests: 'user:eve can_view document:budget' }), '.node.type')
  await page.getByText('1 of 1 tests fail.').waitFor()
  await page.context().close()
}

// figures prints how long things take. Nothing depends on them.
async function figures(s) {
  const page = await open(s.base)
  const post = async (path, body, type = 'application/json') => {
    const r = await fetch(s.base + 'ostiary/v1/' + path, { method: 'POST', headers: { 'Content-Type': type }, body: typeof body === 'string' ? body : JSON.stringify(body) })
    if (!r.ok) throw new Error(`${path}: ${r.status} ${await r.text()}`)
    return r.json()
  }
  const { id } = await post('stores', { name: 'large' })
  const nodes = 500, entries = 20_000
  const typed = (name, subjects) => ({ name, rewrite: { op: 1 }, subjects })
  const types = [{ name: 'user' }, { name: 'document', relations: [typed('viewer', [{ type: 'user' }])] },
    ...Array.from({ length: nodes - 2 }, (_, i) => ({ name: `t${i}`, relations: [typed('parent', [{ type: i === 0 ? 'document' : `t${Math.floor((i - 1) / 3)}` }]), typed('viewer', [{ type: 'user' }])] }))]
  await post(`stores/${id}/schemas`, { model: { types } })
  const tuples = Array.from({ length: entries }, (_, i) => JSON.stringify({ tuple: { object: `document:o${i}`, relation: 'viewer', subject: 'user:anne' } }))
  await post(`stores/${id}/import?entry=1`, tuples.join('\n') + `\n{"end":{"tuples":${entries},"attributes":0}}\n`, 'application/x-ndjson')
  await view(page, s.base, at(id, 'model'), '.node.type')
  same('500 nodes are drawn', await page.locator('svg .node').count(), nodes)
  console.log(`figure: layout of ${nodes} nodes: ${Math.round(await page.evaluate(() => performance.getEntriesByName('layout').at(-1).duration))} ms`)
  const shown = []
  for (let i = 0; i < 10; i++) {
    await page.goto(s.base + 'console/' + ask(id, { kind: 'check', subject: 'user:anne', relation: 'viewer', object: `document:o${i}` }))
    shown.push(await page.evaluate((object) => new Promise((resolve) => {
      const look = () => document.querySelector('.verdict')?.textContent.includes(object) && performance.getEntriesByType('resource').filter((e) => e.name.endsWith('/explain')).length > 0
        ? requestAnimationFrame(() => resolve(performance.now() - performance.getEntriesByType('resource').filter((e) => e.name.endsWith('/explain')).at(-1).responseEnd)) : requestAnimationFrame(look)
      look()
    }), `document:o${i}`))
  }
  console.log(`figure: an answer is on screen after the API's: median ${Math.round(shown.sort((a, b) => a - b)[5])} ms, largest ${Math.round(shown.at(-1))} ms`)
  await view(page, s.base, at(id, 'tuples'), 'table.tuples tbody tr')
  const steps = []
  for (let i = 1; i <= 10; i++) {
    const revision = i * Math.floor(entries / 11)
    steps.push(await page.evaluate((revision) => new Promise((resolve) => {
      const start = performance.now(), slider = document.querySelector('input[type=range]')
      slider.value = String(revision)
      slider.dispatchEvent(new Event('input', { bubbles: true }))
      slider.dispatchEvent(new Event('change', { bubbles: true }))
      const look = () => [...document.querySelectorAll('[role=status]')].some((e) => e.textContent.includes(`so far, revision ${revision}.`)) ? resolve(performance.now() - start) : requestAnimationFrame(look)
      look()
    }), revision))
  }
  console.log(`figure: a step of the slider over ${entries + 1} entries, with the tuples: median ${Math.round(steps.sort((a, b) => a - b)[5])} ms, largest ${Math.round(steps.at(-1))} ms`)
  await page.context().close()
}

// hostile opens stores, permalinks and models whose names try to do harm.
async function hostile(s) {
  const page = await open(s.base)
  let ran = false
  await page.exposeFunction('harm', () => { ran = true })
  await view(page, s.base, '', 'tbody tr')
  const html = await page.locator('table').innerText()
  check('HTML in a name is text', html.includes('<img src=x onerror=harm()>'), html)
  check('bidi controls in a name are visible', html.includes('⟨U+202E⟩'), html)
  for (const name of ['"><script>harm()</script>', '<img src=x onerror=harm()>', 'javascript:harm()', '../../../../healthz', '..', '%2e%2e/%2e%2e', '\u202egnp.exe', '%E0%A4%A', 'x'.repeat(5000)]) {
    const fragment = name === '%E0%A4%A' ? name : encodeURIComponent(name)
    for (const p of ['ask', 'tuples', 'model', 'what-if']) {
      await page.goto('about:blank')
      await view(page, s.base, `#/store/${fragment}/${p}?subject=${fragment}&relation=${fragment}&object=${fragment}&kind=${fragment}&at=${fragment}&context=${fragment}&questions=${fragment}&tests=${fragment}&proposed=${fragment}`, '.trouble')
      check(`nothing of the permalink ${JSON.stringify(name.slice(0, 30))} is part of the page`, await page.locator('main script, main img, main iframe').count() === 0 && page.url().startsWith(s.base + 'console/'), await page.content())
    }
  }
  await view(page, s.base, '', 'tbody tr')
  await page.locator('tbody a').first().click()
  await page.getByRole('heading', { name: 'Ask' }).waitFor()
  check('the title shows the controls', (await page.title()).includes('⟨U+202E⟩') || (await page.title()).includes('<img'), await page.title())
  await page.evaluate(() => { window.postMessage({ key: 'x', type: 'sign-in', href: 'https://evil.example' }, '*') })
  check('nothing ran', !ran, 'it ran')
  const framed = await page.evaluate((base) => new Promise((resolve) => { const f = document.createElement('iframe'); f.src = base + 'console/'; f.onload = () => { try { resolve(f.contentDocument?.getElementById('app') ? 'framed' : 'empty') } catch { resolve('empty') } }; document.body.append(f) }), s.base)
  same('the console is in no frame', framed, 'empty')
  broken.length = 0 // the browser reports that frame
  await page.context().close()
}

// below serves a server below another path, as a proxy does.
async function below(s) {
  const proxy = http.createServer((q, r) => {
    if (!q.url.startsWith('/sub/path/')) { r.writeHead(404).end(); return }
    const to = new URL(s.base)
    q.pipe(http.request({ host: to.hostname, port: to.port, method: q.method, path: q.url.slice('/sub/path'.length), headers: { ...q.headers, host: to.host, ...(q.headers.origin && { origin: to.origin }) } }, (a) => { r.writeHead(a.statusCode, a.headers); a.pipe(r) }))
  })
  await new Promise((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  return { base: `http://127.0.0.1:${proxy.address().port}/sub/path/`, close: () => new Promise((resolve) => { proxy.close(resolve); proxy.closeAllConnections() }) }
}

// prefix opens the console below another path.
async function prefix(s) {
  const { base, close } = await below(s)
  const page = await open(base)
  await page.goto(base + 'console')
  await page.locator('tbody tr').first().waitFor()
  same('a path without the slash', page.url(), base + 'console/')
  await page.context().close()
  const silent = await open(base, { javaScriptEnabled: false })
  await silent.goto(base + 'console/')
  check('without JavaScript', (await silent.content()).includes('needs JavaScript'), 'another page')
  await silent.context().close()
  await close()
}

// budget counts the bytes of the first view.
async function budget(s) {
  const page = await open(s.base)
  const sizes = []
  page.on('requestfinished', (r) => { if (r.url().includes('/console/')) sizes.push(r.sizes()) })
  await view(page, s.base, '', 'tbody tr')
  await page.waitForLoadState('networkidle')
  const bytes = (await Promise.all(sizes)).reduce((sum, s) => sum + s.responseBodySize, 0)
  check('at most 350 KB of files', bytes > 100_000 && bytes <= 350 * 1024, bytes)
  const source = await (await fetch(s.base + 'console/console.js')).text()
  console.log(`figure: files of the first view: ${bytes} bytes`)
  check('the script is compressed', gzipSync(source).length <= 350 * 1024, gzipSync(source).length)
  await page.context().close()
}

let servers = []
const kit = { Server, load, open, view, check, same, text, texts, accessible, ask, at, below, folder, looks: seen, program, pictures, servers }
try {
  await signIn(kit)
  await operate(kit)
  await identity(kit)
  const openServer = await Server.start('open', load)
  servers.push(openServer)
  const id = await pages(openServer)
  await budget(openServer)
  await prefix(openServer)
  await editing(openServer, id)
  const empty = await Server.start('empty', () => {})
  servers.push(empty)
  await first(empty)
  const large = await Server.start('large', () => {}, '--data', 'memory')
  servers.push(large)
  await figures(large)
  let key, reader, team
  const keyed = await Server.start('keys', (run) => {
    load(run)
    key = run('key', 'create', 'operator', '--rights', 'admin', '--stores', '*').trim()
    reader = run('key', 'create', 'reader', '--rights', 'read', '--stores', '*').trim()
    team = run('key', 'create', 'team', '--rights', 'admin', '--stores', 'team-*').trim()
  })
  servers.push(keyed)
  await secrets(keyed, key, reader, team)
  const wild = await Server.start('wild', (run) => { for (const name of ['<img src=x onerror=harm()>', '\u202egnp.exe']) run('store', 'create', name) })
  servers.push(wild)
  await hostile(wild)
  await typing(kit)
  await operations(kit)
} catch (e) {
  check('the play', false, e.stack)
}
same('no request to another address', foreign.filter((u) => u !== 'about:blank'), [])
same('no error of a page', broken, [])
await browser.close()
for (const s of servers) await s.stop()
console.log(`${passed} passed, ${failed} failed, 0 skipped`)
process.exit(failed ? 1 : 0)
