// Plays the pages Watch, Decisions, Policies and Audit, and compares them with the command line and
// with the files of the logs.
import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'

// lines returns the lines of a log in a folder, as JSON, the newest first.
function lines(folder, name) {
  return fs.readdirSync(folder).filter((f) => f.startsWith(name + '-') && f.endsWith('.jsonl')).sort()
    .flatMap((f) => fs.readFileSync(path.join(folder, f), 'utf8').split('\n').filter((l) => l !== '')).map((l) => JSON.parse(l)).reverse()
}

const many = (n, what) => `${n} ${what}${n === 1 ? '' : 's'}`

// until waits for a condition.
async function until(what, condition) {
  for (const end = Date.now() + 60_000; !(await condition()); await new Promise((r) => setTimeout(r, 100))) if (Date.now() > end) throw new Error(`${what} does not happen`)
}

const ward = `policyset hospital {
  apply denyOverrides
  policy ward {
    apply denyUnlessPermit
    rule "doctors-read" {
      target clause actionId == "read" and subjectId == "user:anne"
      permit
    }
    rule "night" {
      target clause actionId == "write"
      deny
    }
  }
  policyref archive
}
`
const archive = `policy archive {
  apply firstApplicable
  rule "closed" {
    target clause resourceId == "document:closed"
    deny
  }
}
`
const request = (subject, resource, action) => ({ Request: {
  AccessSubject: { Attribute: [{ AttributeId: 'urn:oasis:names:tc:xacml:1.0:subject:subject-id', Value: subject }] },
  Resource: { Attribute: [{ AttributeId: 'urn:oasis:names:tc:xacml:1.0:resource:resource-id', Value: resource }] },
  Action: { Attribute: [{ AttributeId: 'urn:oasis:names:tc:xacml:1.0:action:action-id', Value: action }] } } })

// operations plays the pages on a server with keys and both logs, whose data is that of the demo.
export async function operations(kit) {
  // Each view is loaded anew, so that nothing of the view before is taken for it.
  const { view } = kit
  kit = { ...kit, view: async (page, ...rest) => { await page.goto('about:blank'); await view(page, ...rest) } }
  const { Server, load, servers, folder } = kit
  const logs = { decisions: path.join(folder, 'decision-log'), audit: path.join(folder, 'audit-log') }
  let key, reader
  const s = await Server.start('operations', (run) => {
    load(run)
    key = run('key', 'create', 'operator', '--rights', 'admin', '--stores', '*').trim()
    reader = run('key', 'create', 'reader', '--rights', 'read', '--stores', '*').trim()
  }, '--decision-log', logs.decisions, '--audit-folder', logs.audit)
  servers.push(s)
  const id = /[0-9A-HJKMNP-TV-Z]{26}/.exec(s.cli(key, 'store', 'list', '--json'))[0]
  const page = await kit.open(s.base)
  await kit.view(page, s.base, '', 'input[name=key]')
  await page.getByLabel('Key').fill(key)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.locator('tbody tr').first().waitFor()
  await watch(kit, s, page, id, key)
  await decisions(kit, s, page, id, key, logs.decisions)
  await policies(kit, s, page, id, key)
  await audit(kit, s, page, id, key, logs.audit)
  await lesser(kit, s, page, id, key, reader)
  await looks(kit, s, id, key)
  await page.context().close()
  await bare(kit)
}

// bare opens the pages on a server that has neither the logs nor the door of policies.
async function bare({ Server, load, servers, open, view, check, accessible, at }) {
  const s = await Server.start('bare', load, '--doors', 'native')
  servers.push(s)
  const page = await open(s.base)
  const id = /[0-9A-HJKMNP-TV-Z]{26}/.exec(s.cli('', 'store', 'list', '--json'))[0]
  for (const [fragment, words] of [[at(id, 'decisions'), '--decision-log FOLDER'], ['#/audit', '--audit-folder FOLDER'], [at(id, 'what-if', { from: 'log' }), '--decision-log FOLDER'], [at(id, 'policies'), 'This server has no XACML door']]) {
    await view(page, s.base, fragment, `main >> text=${words}`)
    check(`${fragment} explains what is missing, without an error`, await page.locator('main h1').count() === 1 && await page.locator('.trouble').count() === 0, await page.locator('main').innerText())
    await accessible(page, `without ${words}`)
  }
  await page.context().close()
}

// watch sees what a write of the command line changes, also after the server was away.
async function watch({ view, texts, text, check, same, accessible, at }, s, page, id, key) {
  const fields = { subjects: 'user', relation: 'can_view', objects: 'document:budget' }
  await view(page, s.base, at(id, 'watch', fields), '.state.watching')
  const bytes = []
  page.on('request', (r) => { if (r.url().includes('/watch')) bytes.push(r.url()) })
  // A browser has no rendered text of what it has not drawn yet, but its content.
  const content = async (selector) => (await page.locator(selector).allTextContents()).map((t) => t.replace(/\s+/g, ' ').trim())
  const shown = () => content('[role=log] li li')
  s.cli(key, 'tuple', 'write', 'user:bob', 'viewer', 'document:budget')
  s.cli(key, 'tuple', 'delete', 'user:bob', 'blocked', 'document:budget')
  await page.locator('[role=log] li li').first().waitFor()
  same('a gain that follows from a removed block', await shown(), ['+ gained user:bob can_view document:budget'])
  s.cli(key, 'tuple', 'write', 'user:bob', 'blocked', 'document:budget')
  await page.locator('[role=log] .false').first().waitFor()
  same('a loss', (await shown())[0], '− lost user:bob can_view document:budget')
  same('the numbers of gains and losses', await text(page, '.state'), 'Watching: 1 gained, 1 lost.')
  const revisions = (await texts(page, '[role=log] a')).filter((t) => t.startsWith('Revision')).map((t) => t.replace('Revision ', ''))
  const diff = s.cli(key, 'diff', 'user', 'can_view', 'document', '--from', String(revisions.at(-1) - 1), '--to', revisions.at(-1))
  check('the gain, as the command line has it', diff.split('\n').some((l) => l.startsWith('+') && l.includes('user:bob') && l.includes('document:budget')), diff)
  await accessible(page, 'watch')
  await page.getByRole('link', { name: 'user:bob can_view document:budget' }).first().click()
  await page.locator('.verdict:has-text("Denied")').waitFor()
  await page.goBack()
  await page.locator('.state.watching').waitFor()

  // From a revision of the slider on; paused; hidden.
  const hide = (hidden) => page.evaluate((value) => { Object.defineProperty(document, 'hidden', { value, configurable: true }); document.dispatchEvent(new Event('visibilitychange')) }, hidden)
  s.cli(key, 'tuple', 'write', 'user:nina', 'viewer', 'document:budget')
  await view(page, s.base, at(id, 'watch', { ...fields, at: '2' }), '[role=log] li li')
  check('the past is watched from its revision on', (await text(page, '.state')).includes('from revision 2 on'), await text(page, '.state'))
  await view(page, s.base, at(id, 'watch', fields), '.state.watching')
  await page.getByRole('button', { name: 'Pause' }).click()
  await page.locator('.state.paused').waitFor()
  s.cli(key, 'tuple', 'delete', 'user:bob', 'blocked', 'document:budget')
  await page.waitForTimeout(500)
  same('nothing arrives while it is paused', await shown(), [])
  await page.getByRole('button', { name: 'Go on' }).click()
  await page.locator('[role=log] .true').first().waitFor()
  const opened = bytes.length
  await hide(true)
  await page.locator('.state.hidden').waitFor()
  s.cli(key, 'tuple', 'write', 'user:bob', 'blocked', 'document:budget')
  await hide(false)
  await page.locator('[role=log] .false').first().waitFor()
  same('a hidden tab has no stream, and goes on where it was', bytes.length, opened + 1)

  // The server goes away, and what happens meanwhile is not lost.
  await page.route('**/watch-permission*', (r) => r.abort('connectionrefused'))
  await hide(true)
  await page.locator('.state.hidden').waitFor()
  await hide(false)
  await page.locator('.state.waiting').waitFor()
  check('a lost connection is said', (await text(page, '.trouble')).includes('does not answer'), await text(page, '.trouble'))
  s.cli(key, 'tuple', 'delete', 'user:bob', 'blocked', 'document:budget')
  await page.unroute('**/watch-permission*')
  await until('the stream is opened again', async () => (await shown()).length === 3)
  same('what happened meanwhile', (await shown())[0], '+ gained user:bob can_view document:budget')
  s.cli(key, 'tuple', 'write', 'user:bob', 'blocked', 'document:budget')

  // The log, and what the API refuses.
  await view(page, s.base, at(id, 'watch', { kind: 'log' }), '.state.watching')
  s.cli(key, 'tuple', 'write', 'user:zoe', 'viewer', 'document:budget', '--reason', 'for <b>Zoe</b>')
  await page.locator('[role=log] li').first().waitFor()
  check('an entry of the log', (await content('[role=log] li'))[0].includes('for <b>Zoe</b>'), await content('[role=log] li'))
  s.cli(key, 'tuple', 'delete', 'user:zoe', 'viewer', 'document:budget')
  await view(page, s.base, at(id, 'watch', { ...fields, relation: 'nothing' }), '.state.ended')
  check('the error of the API', (await text(page, '.trouble')).startsWith('no_relation'), await text(page, '.trouble'))
  await view(page, s.base, at(id, 'watch', { ...fields, objects: 'document:a folder:b' }), '.trouble')
  check('names of two types', (await text(page, '.trouble')).includes('one type'), await text(page, '.trouble'))
  await view(page, s.base, at(id, 'watch', { ...fields, subjects: 'user', objects: 'document' }), '.trouble:has-text("at least one object")')
  const wild = 'document:<img/src=x/onerror=harm()>'
  await view(page, s.base, at(id, 'watch', { ...fields, objects: wild, context: '<img>' }), '.state.ended')
  check('hostile names are text', (await page.locator('main img').count()) === 0, 'an image')
  await view(page, s.base, at(id, 'watch'), '.soft:has-text("For example")')
}

// decisions goes from the log to a question, to its explanation, and back.
async function decisions({ view, texts, text, check, same, accessible, at, folder, program }, s, page, id, key, log) {
  const asked = ['user:anne can_view document:budget', 'user:bob can_view document:budget', 'user:eve can_view document:budget', 'user:dora can_view document:budget']
  for (const q of asked) s.cli(key, 'check', ...q.split(' '))
  const check1 = (body) => fetch(s.base + `ostiary/v1/stores/${id}/check`, { method: 'POST', headers: { 'Content-Type': 'application/json', Authorization: 'Bearer ' + key }, body: JSON.stringify(body) })
  same('a question with a hostile name', (await check1({ subject: 'user:<img/src=x/onerror=harm()>\u202e"&', relation: 'can_view', object: 'document:budget' })).status, 200)
  await check1({ subject: 'user:frank', relation: 'can_view', object: 'document:budget', tuples: [{ object: 'document:budget', relation: 'viewer', subject: 'user:frank' }] })
  await until('the log has the checks', () => lines(log, 'decisions').some((l) => l.input?.subject === 'user:frank'))
  const file = lines(log, 'decisions').filter((l) => l.store === id)
  const word = (l) => (l.result === null ? 'undecided' : l.result ? 'allowed' : 'denied')
  await view(page, s.base, at(id, 'decisions'), 'table tbody tr')
  await page.getByText(`${many(file.length, 'decision')}: all that the log has.`).waitFor()
  const rows = await texts(page, 'table.tuples tbody tr')
  same('the decisions, as the file has them', rows.map((r) => r.replace(/^.*UTC /, '')), file.map((l) => `${word(l)} ${l.input.subject.replace('\u202e', '⟨U+202E⟩')} ${l.input.relation} ${l.input.object} ${l.caller} ${l.path} ${l.revision}`))
  await accessible(page, 'decisions')
  await page.getByLabel('Result').selectOption('denied')
  await page.getByRole('button', { name: 'Filter' }).click()
  const denied = file.filter((l) => l.result === false).length
  await page.getByText(`${many(denied, 'decision')}: all that the log has.`).waitFor()
  check('the filter is in the URL', page.url().includes('result=false'), page.url())
  await page.getByRole('link', { name: 'user:eve can_view document:budget' }).click()
  await page.locator('.steps li').first().waitFor()
  same('the logged result', await text(page, '.verdict strong'), 'Was denied')
  const why = s.cli(key, 'explain', 'user:eve', 'can_view', 'document:budget').split('\n').filter((l) => /^\s*[✓✗?]/.test(l)).length
  same('its explanation has the steps of the command line', await page.locator('.steps li').count(), why)
  await accessible(page, 'a decision')
  await page.getByRole('link', { name: 'Try it now' }).click()
  await page.locator('.verdict:has-text("Denied")').waitFor()
  await page.getByRole('link', { name: 'Logged decisions of this question' }).click()
  await page.getByText('1 decision: all that the log has.').waitFor()
  await page.goBack()
  await page.goBack()
  await page.locator('.steps li').first().waitFor()
  const permalink = page.url()
  await page.getByRole('link', { name: 'Back to the log' }).click()
  await page.getByText(many(denied, 'decision')).waitFor()
  await page.goto('about:blank')
  await page.goto(permalink.replace(/&near=[^&]*/, '&near=99.5'))
  await page.locator('.steps li').first().waitFor()
  await view(page, s.base, at(id, 'decisions', { subject: 'user:frank' }), 'table tbody tr')
  await page.getByRole('link', { name: /user:frank/ }).click()
  await page.locator('.steps li').first().waitFor()
  check('a decision with tuples of its request is explained with them', (await text(page, '.verdict strong')) === 'Was allowed' && await page.locator('.trouble').count() === 0, await text(page, 'main'))
  await view(page, s.base, at(id, 'decisions', { subject: 'user:nobody' }), 'p:has-text("No logged decision is like that")')
  await view(page, s.base, at(id, 'decisions', { since: 'yesterday' }), '.trouble')
  await view(page, s.base, at(id, 'decisions', { id: 'none' }), '.trouble')
  check('a decision that is not there', (await text(page, '.trouble')).includes('has no decision none'), await text(page, '.trouble'))
  await view(page, s.base, at(id, 'decisions', { at: '1' }), 'p:has-text("up to the end of revision 1")')

  // The decision log as the question set of What if.
  await view(page, s.base, at(id, 'decisions'), 'table tbody tr')
  await page.getByRole('link', { name: 'Which of them would be decided otherwise now?' }).click()
  await page.locator('[aria-label=Result] p[role=status]').waitFor()
  const count = async () => (await text(page, '[aria-label=Result] p[role=status]')).replace(/\. Revision.*$/s, '')
  const now = s.cli(key, 'what-if', '--decisions', log)
  check('the log against what is now, as the command line counts', now.includes((await count()).replace(/^.*asked: /, '')), { now, page: await count() })
  await page.getByLabel('Tuples to remove').fill('user:bob blocked document:budget')
  await page.getByRole('button', { name: 'Try it' }).click()
  await page.locator('[aria-label=Result] tr.changed').first().waitFor()
  const then = s.cli(key, 'what-if', '--decisions', log, '--remove', 'user:bob blocked document:budget')
  check('the log under a change, as the command line counts', then.includes(await count()), { then, page: await count() })
  await accessible(page, 'what if, with the decision log')
}

// policies paints decisions on the tree of policies, and runs test files.
async function policies({ view, texts, text, check, same, accessible, at, folder, program }, s, page, id, key) {
  await view(page, s.base, at(id, 'policies'), 'p:has-text("The store has no policies yet")')
  check('without editing, nothing is written', await page.getByRole('button', { name: 'Write this policy' }).isDisabled(), 'it can')
  await accessible(page, 'no policies')
  await page.getByRole('button', { name: 'Read-only' }).click()
  await page.getByRole('button', { name: 'Write this policy' }).click()
  await page.locator('.tree li').first().waitFor()
  same('the example', await texts(page, '.tree .element a'), ['example', 'anne-reads'])
  const dir = path.join(folder, 'policies')
  fs.mkdirSync(path.join(dir, 'Policies'), { recursive: true })
  fs.writeFileSync(path.join(dir, 'Policies', 'Policy.alfa'), ward)
  fs.writeFileSync(path.join(dir, 'Policies', 'archive.alfa'), archive)
  const put = await fetch(s.base + `stores/${id}/xacml/v3/policies`, { method: 'POST', headers: { 'Content-Type': 'application/json', Authorization: 'Bearer ' + key }, body: JSON.stringify({ clear: true, root: { language: 'text', text: ward }, put: { archive: { language: 'text', text: archive } } }) })
  same('the policies are put', put.status, 200)
  const trials = [['user:anne', 'document:budget', 'read', 'Permit'], ['user:bob', 'document:budget', 'read', 'Deny'], ['user:anne', 'document:closed', 'read', 'Deny']]
  for (const [subject, resource, action, decision] of trials) {
    await view(page, s.base, at(id, 'policies', { subject, resource, action }), `.verdict:has-text("${decision}")`)
    await page.locator('.tree strong').first().waitFor()
    const file = path.join(dir, 'one.json')
    fs.writeFileSync(file, JSON.stringify(request(subject, resource, action)))
    const cli = execFileSync(program, ['xacml', 'explain', path.join(dir, 'Policies'), file], { encoding: 'utf8' })
    same(`the decision about ${subject} and ${resource}`, await text(page, '.verdict strong'), cli.split('\n')[0].split(/[ ,]/)[0])
    const steps = cli.split('\n').slice(1).filter((l) => / target /.test(l)).map((l) => /(policy set|policy|rule) (\S+) .*, (\w+)/.exec(l)).map((m) => `${m[1]} ${m[2]} ${m[3]}`)
    const shown = (await page.locator('.tree .element').evaluateAll((all) => all.filter((e) => e.querySelector('strong')).map((e) => `${e.querySelector('.soft').textContent} ${e.querySelector('a').textContent} ${e.querySelector('strong').textContent}`)))
    same(`the painted steps of ${subject} and ${resource}`, shown.sort(), steps.sort())
  }
  await accessible(page, 'policies')
  await page.locator('.tree a', { hasText: 'closed' }).click()
  await page.locator('.source li.current').waitFor()
  same('a step leads to its line', (await text(page, '.source li.current')).trim(), 'rule "closed" {')
  await view(page, s.base, at(id, 'policies', { request: '{"Request":{' }), '.trouble')
  await view(page, s.base, at(id, 'policies', { request: JSON.stringify(request('user:<img src=x onerror=harm()>', 'x', 'read')), show: '<img src=x onerror=harm()>' }), '.verdict')
  check('hostile names are text', await page.locator('main img').count() === 0, 'an image')
  await view(page, s.base, at(id, 'policies', { subject: 'user:anne', resource: 'document:budget', action: 'read', at: '1' }), '.past-note')
  const past = (await (await fetch(s.base + `stores/${id}/xacml/v3/root/versions`, { headers: { Authorization: 'Bearer ' + key } })).json()).versions.at(-1).revision
  await view(page, s.base, at(id, 'policies', { revision: String(past) }), '.tree li')
  same('the policies of a past revision', await texts(page, '.tree .element a'), ['example', 'anne-reads'])

  // The store of the policies itself: its slider is theirs.
  const own = (await (await fetch(s.base + `stores/${id}/xacml/v3/domain`, { headers: { Authorization: 'Bearer ' + key } })).json()).store
  await view(page, s.base, at(own, 'policies', { at: String(past) }), '.tree li')
  same('the slider is that of the policies', await texts(page, '.tree .element a'), ['example', 'anne-reads'])

  // Test files, against the policies in force and with a policy beside them.
  const response = (decision) => JSON.stringify({ Response: [{ Decision: decision }] })
  trials.push(['user:bob', 'document:budget', 'read', 'Permit'])
  const files = trials.flatMap(([subject, resource, action, decision], i) => [{ name: `${i}Request.json`, mimeType: 'application/json', buffer: Buffer.from(JSON.stringify(request(subject, resource, action))) }, { name: `${i}Response.json`, mimeType: 'application/json', buffer: Buffer.from(response(decision)) }])
  for (const f of files) fs.writeFileSync(path.join(dir, f.name), f.buffer)
  await view(page, s.base, at(id, 'policies'), '.tree li')
  await page.getByLabel('Files', { exact: true }).setInputFiles(files)
  const expected = s.cli(key, 'xacml', 'test', dir)
  await page.getByText('4 tests, 1 failed').waitFor()
  check('the command line counts the same', expected.includes('4 tests, 1 failed'), expected)
  check('what differs is said', (await texts(page, '[aria-label="Test files"] .found li')).some((t) => t.includes('FAIL') && t.includes('decision Deny, expected Permit')), await texts(page, '[aria-label="Test files"] .found li'))
  await accessible(page, 'test files')
  await page.getByLabel('Files', { exact: true }).setInputFiles([{ name: 'Policy.alfa', mimeType: 'text/plain', buffer: Buffer.from('policy open { apply permitUnlessDeny }') }, ...files.slice(2, 4)])
  await page.getByText('1 test, 1 failed').waitFor()
  await page.getByLabel('Files', { exact: true }).setInputFiles([{ name: 'Policy.alfa', mimeType: 'text/plain', buffer: Buffer.from('policy open {') }, ...files.slice(2, 4)])
  await page.locator('.drop .trouble').waitFor()
  await page.getByLabel('Files', { exact: true }).setInputFiles([{ name: 'xRequest.json', mimeType: 'application/json', buffer: Buffer.from('{') }])
  await page.getByText('no test among the files').or(page.getByText('xRequest.json:')).first().waitFor()
  same('nothing was written', s.cli(key, 'xacml', 'test', dir).includes('4 tests, 1 failed'), true)
}

// audit compares the records with those of the files.
async function audit({ view, texts, text, check, same, accessible }, s, page, id, key, log) {
  try { s.cli('a-wrong-key', 'store', 'list') } catch { /* it is refused, which is what the log shows */ }
  await until('the logs have it', () => lines(log, 'refusals').some((l) => l.kind === 'refusal') && lines(log, 'audit').some((l) => l.kind === 'write'))
  const own = ['begin', 'head', 'end']
  const file = lines(log, 'audit').filter((l) => !own.includes(l.kind))
  await view(page, s.base, '#/audit', 'table tbody tr')
  await page.getByText(`${many(file.length, 'record')}: all that the log has.`).waitFor()
  same('the records, as the file has them', await texts(page, 'tbody td:first-child'), file.map((l) => String(l.number)))
  await accessible(page, 'audit')
  await page.getByLabel('Operation').fill('Write')
  await page.getByRole('button', { name: 'Filter' }).click()
  const writes = file.filter((l) => l.operation === 'Write')
  await page.getByText(`${many(writes.length, 'record')}: all that the log has.`).waitFor()
  check('the reason of a write is text', (await texts(page, 'tbody tr')).some((t) => t.includes('for <b>Zoe</b>')), await texts(page, 'tbody tr'))
  await page.locator('tbody td a').first().click()
  await page.locator('.one pre').waitFor()
  same('a record as the file has it', JSON.parse(await text(page, '.one pre')), writes[0])
  await page.getByRole('link', { name: 'Close' }).click()
  await page.getByRole('link', { name: /^revision / }).first().click()
  await page.locator('.log > li.current').waitFor()
  check('a record leads to its entry', page.url().includes(`at=${writes[0].changes[0].revision}`), page.url())
  await page.goto(s.base + 'console/#/audit?log=refusals')
  const refused = lines(log, 'refusals').filter((l) => !own.includes(l.kind))
  await page.getByText(`${many(refused.length, 'record')}: all that the log has.`).waitFor()
  await view(page, s.base, '#/audit?caller=nobody-there', 'p:has-text("No record is like that")')
  await page.keyboard.press('Control+k')
  await page.keyboard.type('go to audit')
  await page.keyboard.press('Enter')
  await page.locator('table tbody tr').first().waitFor()
}

// lesser looks with a key that may only read, and after the key has ended.
async function lesser({ view, text, check, same, accessible, at }, s, page, id, key, reader) {
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByLabel('Key').fill(reader)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.locator('tbody tr').first().waitFor()
  const asked = []
  page.on('request', (r) => asked.push(new URL(r.url()).pathname))
  await view(page, s.base, at(id, 'decisions'), '.trouble')
  check('a reader is told before it asks', (await text(page, '.trouble')).includes('no right admin'), await text(page, '.trouble'))
  await view(page, s.base, '#/audit', '.trouble')
  check('a reader is told about the audit log', (await text(page, '.trouble')).includes('does not administer all stores'), await text(page, '.trouble'))
  same('the API is not asked', asked.filter((p) => /\/(audit|decisions)$/.test(p)), [])
  for (const [path, body] of [[`stores/${id}/decisions`, {}], ['audit', {}]]) {
    for (const [secret, status] of [[reader, 403], ['', 401], ['wrong', 401]]) same(`the API about ${path} with ${secret ? 'a lesser or wrong key' : 'no key'}`, (await fetch(s.base + 'ostiary/v1/' + path, { method: 'POST', headers: { 'Content-Type': 'application/json', ...(secret && { Authorization: 'Bearer ' + secret }) }, body: JSON.stringify(body) })).status, status)
  }
  await view(page, s.base, at(id, 'policies'), '.tree li')
  await view(page, s.base, at(id, 'watch', { subjects: 'user', relation: 'can_view', objects: 'document:budget' }), '.state.watching')
  await accessible(page, 'watch, with a key that may only read')
  s.cli(key, 'key', 'revoke', 'reader')
  await page.getByLabel('Key').waitFor()
  check('a key that has ended is said', (await text(page, '.trouble')).startsWith('bad_credentials'), await text(page, '.trouble'))
}

// looks opens the pages light, dark and on a phone.
async function looks({ open, view, accessible, check, at, pictures }, s, id, key) {
  const views = {
    watch: [at(id, 'watch', { subjects: 'user', relation: 'can_view', objects: 'document:budget', at: '2' }), '[role=log] li'],
    decisions: [at(id, 'decisions'), 'tbody tr'], decision: [at(id, 'decisions', { result: 'false' }), 'tbody tr a'],
    policies: [at(id, 'policies', { subject: 'user:bob', resource: 'document:budget', action: 'read' }), '.tree strong'], audit: ['#/audit', 'tbody tr'],
  }
  for (const [look, options] of Object.entries({ light: { colorScheme: 'light' }, dark: { colorScheme: 'dark' }, phone: { viewport: { width: 390, height: 844 } } })) {
    const page = await open(s.base, options)
    await page.addInitScript((key) => { if (location.protocol === 'http:') sessionStorage.setItem('ostiary.key', key) }, key)
    for (const [name, [fragment, wait]] of Object.entries(views)) {
      await view(page, s.base, fragment, wait)
      if (name === 'decision') {
        await page.locator('tbody tr a').first().click()
        await page.locator('.steps li').first().waitFor()
      }
      if (look === 'dark') await accessible(page, `${name}, dark`, 'color-contrast')
      if (look === 'phone') check(`${name} fits a phone`, await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), await page.evaluate(() => document.documentElement.scrollWidth))
      if (pictures) await page.screenshot({ path: path.join(pictures, `${name}-${look}.png`) })
    }
    await page.context().close()
  }
}
