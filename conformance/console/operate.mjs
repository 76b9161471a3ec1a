// Plays an operator at the pages Keys and Nodes, and compares what they show with the command line.
import { execFileSync } from 'node:child_process'
import path from 'node:path'

export async function operate(kit) {
  await keys(kit)
  await nodes(kit)
}

// with returns the text of a row's cells.
const cells = (row) => row.locator('td').evaluateAll((all) => all.map((c) => c.innerText.split('\n')[0].trim()))

async function signInWith(page, view, base, fragment, key) {
  await page.goto('about:blank')
  await view(page, base, fragment, 'input[name=key]')
  await page.getByLabel('Key', { exact: true }).fill(key)
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
}

async function keys({ Server, load, open, view, check, same, text, accessible, looks, servers }) {
  // The first key of a server that has none.
  const s = await Server.start('operate', load)
  servers.push(s)
  const page = await open(s.base)
  await view(page, s.base, '', 'tbody tr')
  await page.getByRole('navigation', { name: 'Pages of the server' }).getByRole('link', { name: 'Keys' }).click()
  await page.getByText('There is no key yet: every request is accepted').waitFor()
  same('keys have a URL', page.url(), s.base + 'console/#/keys')
  await page.getByRole('button', { name: 'Read-only' }).click()
  await page.getByLabel('Expires').fill('soon')
  await page.getByRole('button', { name: 'Make the key' }).click()
  await page.getByText('invalid expiry "soon"').waitFor()
  await page.getByLabel('Expires').fill('never')
  // A first key that would shut its maker out: a question, with what follows.
  const risk = page.getByRole('alert', { name: 'Before the first key is made' })
  for (const [right, expires, words] of [['read', 'never', 'does not administer all stores'], ['admin', '90d', 'It ends (90d)']]) {
    await page.getByLabel('Expires').fill(expires)
    for (const r of ['read', 'admin']) await page.getByLabel(r, { exact: true }).setChecked(r === right)
    await page.getByRole('button', { name: 'Make the key' }).click()
    await risk.getByText(words).waitFor()
    await page.getByRole('button', { name: 'Change it' }).click()
  }
  same('no key is made before the second step', (await (await fetch(s.base + 'ostiary/v1/keys')).json()).keys ?? [], [])
  await page.reload()
  await page.getByRole('button', { name: 'Read-only' }).click()
  same('the first key is preset to have no end', await page.getByLabel('Expires').inputValue(), 'never')
  await page.getByRole('button', { name: 'Make the key' }).click()
  const admin = await page.locator('[data-secret]').innerText()
  same('what follows is there', [await page.getByText('it refuses every request without one').count(), await page.getByText('There is no key yet').count(), await page.getByRole('button', { name: 'Make the key' }).count()], [1, 0, 0])
  // Leaving with the secret asks, on each way.
  const asked = []
  const answer = (dialog) => { asked.push(dialog.message()); dialog.dismiss() }
  page.on('dialog', answer)
  await page.getByRole('navigation', { name: 'Pages of the server' }).getByRole('link', { name: 'Nodes' }).click()
  const questions = async (n) => { for (const end = Date.now() + 20_000; asked.length < n && Date.now() < end;) await new Promise((r) => setTimeout(r, 50)) }
  await questions(1)
  await page.waitForURL(s.base + 'console/#/keys')
  await page.goBack()
  await questions(2)
  await page.waitForURL(s.base + 'console/#/keys')
  check('leaving with an unsaved secret asks', asked.length === 2 && asked.every((t) => t === 'The secret of the key admin is not shown again. Leave the page without it?'), asked)
  same('the page stays, with its secret', [page.url(), await page.locator('[data-secret]').innerText()], [s.base + 'console/#/keys', admin])
  await page.evaluate(() => { setTimeout(() => location.reload()) })
  await questions(3)
  same('so does loading the page again', asked.length, 3)
  same('and the secret is still there', await page.locator('[data-secret]').innerText(), admin)
  page.off('dialog', answer)
  check('the first key is shown', admin.length > 20, admin)
  await accessible(page, 'a new key')
  await page.getByRole('button', { name: 'Sign in with it in this tab' }).click()
  await page.locator('tbody tr').first().waitFor()
  check('the secret is shown once', !(await page.content()).includes(admin), 'it is still there')
  const list = () => JSON.parse(s.cli(admin, 'key', 'list', '--json'))
  same('the key, as the command line lists it', await cells(page.locator('tbody tr').first()), [list()[0].name, 'admin', '*', 'all', 'never', 'its secret', list()[0].owner, list()[0].creator])

  await page.getByRole('heading', { name: 'Make a key' }).waitFor()
  same('the next form begins as one for a lesser key', [await page.getByLabel('Stores', { exact: true }).inputValue(), await page.getByLabel('admin', { exact: true }).isChecked(), await page.getByLabel('Expires').inputValue()], ['', false, '90d'])

  // More keys: with a scope, limits and a name that tries to do harm; one for tokens.
  const hostile = '<img src=x onerror=harm()>'
  const make = async (fields, right) => {
    for (const [label, value] of Object.entries(fields)) await page.getByLabel(label, { exact: true }).fill(value)
    for (const r of ['read', 'write', 'schema', 'admin']) await page.getByLabel(r, { exact: true }).setChecked(r === right)
    await page.getByRole('button', { name: 'Make the key' }).click()
  }
  await make({ 'Name of the new key': hostile, Stores: 'team-* acme', 'Doors, or all': 'native, openfga', Expires: '12h', Owner: 'anne@example.com', 'Requests a second': '50' }, 'write')
  const writer = await page.locator('[data-secret]').innerText()
  await page.getByRole('button', { name: 'I have kept it' }).click()
  await page.getByText('2 keys that you may see.').waitFor()
  const made = list().find((k) => k.name === hostile)
  same('the new key, as the command line has it', [made.stores, made.rights, made.doors, made.owner, made.limits, Math.round((new Date(made.expires) - new Date(made.created)) / 36e5)], [['team-*', 'acme'], ['write'], ['native', 'openfga'], 'anne@example.com', { requests: { per_second: 50 } }, 12])
  check('a name with HTML is text', await page.locator('main img').count() === 0 && (await text(page, 'main table')).includes(hostile), await text(page, 'main table'))
  await make({ 'Name of the new key': hostile, Stores: '*' }, 'read')
  await page.getByText('key_exists').waitFor()
  same('what was typed stays', await page.getByLabel('Name of the new key').inputValue(), hostile)
  await make({ 'Name of the new key': 'x', Stores: 'permify/nothing' }, 'read')
  await page.locator('.trouble:has-text("nothing")').waitFor()
  await page.getByLabel('For callers with').selectOption('token')
  await make({ 'Name of the new key': 'group', Stores: '*', 'Doors, or all': '', 'Requests a second': '', Issuer: 'https://login.example.com', Claim: 'groups', 'Value of the claim': 'readers' }, 'read')
  await page.getByText('The key group is made').waitFor()
  await page.getByRole('button', { name: 'Done' }).click()
  await page.getByText('3 keys that you may see.').waitFor()
  same('a key for tokens', list().find((k) => k.name === 'group').match, { issuer: 'https://login.example.com', claim: 'groups', value: 'readers' })
  await page.getByLabel('Name, owner or store').fill('TEAM-')
  await page.getByRole('button', { name: 'Filter' }).click()
  await page.getByText('1 of 3 keys.').waitFor()
  check('the filter is in the URL', page.url().endsWith('#/keys?filter=TEAM-'), page.url())

  // One key: why it may, other limits, another secret, the end.
  await page.getByRole('link', { name: hostile }).click()
  await page.getByRole('region', { name: 'The key' }).waitFor()
  for (const [right, word] of [['write', 'Allowed'], ['schema', 'Denied']]) {
    await page.getByLabel('Store', { exact: true }).fill('acme')
    await page.getByLabel('Right', { exact: true }).fill(right)
    await page.getByRole('button', { name: 'Explain' }).click()
    await page.locator(`.verdict strong:has-text("${word}")`).waitFor()
    const cli = s.cli(admin, 'key', 'explain', hostile, '--store', 'acme', '--right', right)
    check(`the explanation of ${right} is that of the command line`, cli.replace(/\s+/g, ' ').includes((await text(page, '.verdict pre')).replace(/\s+/g, ' ').trim().slice(0, 80)), { cli, page: await text(page, '.verdict pre') })
  }
  await accessible(page, 'a key')
  await page.getByLabel('Limit: requests a second').fill('7')
  await page.getByRole('button', { name: 'Set the limits' }).click()
  await page.getByText('the limits of').waitFor()
  same('the limits, as the command line has them', list().find((k) => k.name === hostile).limits, { requests: { per_second: 7 } })
  await page.getByLabel('How long the old secret is still accepted').fill('0')
  await page.getByRole('button', { name: 'Make a new secret' }).click()
  const second = await page.locator('[data-secret]').innerText()
  const status = async (key) => (await fetch(s.base + 'ostiary/v1/me', { headers: { Authorization: 'Bearer ' + key } })).status
  same('the old secret has ended', [await status(writer), await status(second)], [401, 200])
  await page.getByRole('button', { name: 'I have kept it' }).click()
  await page.getByRole('button', { name: 'Revoke…' }).click()
  await page.getByRole('button', { name: 'Keep it' }).click()
  await page.getByRole('button', { name: 'Revoke…' }).click()
  await page.getByRole('button', { name: /for ever$/ }).click()
  await page.getByText('it is refused from now on').waitFor()
  same('a revoked key is refused', await status(second), 401)
  same('and is not listed', list().map((k) => k.name), ['admin', 'group'])

  // The last key that administers: its end needs a second step, which names what follows.
  await view(page, s.base, '#/keys?key=admin', '[aria-label="The key"]')
  await page.getByRole('button', { name: 'Revoke…' }).click()
  await page.getByText('This is the last key with admin on all stores').waitFor()
  check('it names how to get in again', (await text(page, 'main .verdict')).includes('Stop the server, run ostiary key create NAME'), await text(page, 'main .verdict'))
  const forEver = page.getByRole('button', { name: 'Revoke admin for ever' })
  check('the last key needs a second step', await forEver.isDisabled(), 'it can be revoked at once')
  await page.getByLabel('I can run commands on the data folder of the server').check()
  check('and then it can be revoked', await forEver.isEnabled(), 'it cannot')
  await accessible(page, 'the last key')
  await page.getByRole('button', { name: 'Keep it' }).click()
  // With another one, it is a key as any other. That one ends, and so do those that it makes.
  const ends = s.cli(admin, 'key', 'create', 'brief', '--rights', 'admin', '--stores', '*', '--expires', '48h').trim()
  await page.reload()
  await page.getByRole('button', { name: 'Read-only' }).click()
  await page.getByRole('button', { name: 'Revoke…' }).click()
  check('one of two needs no second step', await forEver.isEnabled() && await page.getByText('This is the last key').count() === 0, 'it does')
  const ending = await open(s.base)
  await signInWith(ending, view, s.base, '#/keys', ends)
  await ending.getByRole('button', { name: 'Read-only' }).click()
  await ending.getByText('Your key brief ends').waitFor()
  const until = await ending.getByLabel('Expires').inputValue()
  same('the expiry is that of the key', until, list().find((k) => k.name === 'brief').expires)
  await ending.getByLabel('Name of the new key').fill('short')
  await ending.getByLabel('Stores', { exact: true }).fill('nosuch')
  await ending.getByLabel('Expires').fill('90d')
  await ending.getByRole('button', { name: 'Make the key' }).click()
  await ending.getByText('The expiry is later than that of your key brief').waitFor()
  await ending.getByLabel('Expires').fill(until)
  await ending.getByRole('button', { name: 'Make the key' }).click()
  await ending.getByText('Warning: no store has a name that matches "nosuch" at the moment').waitFor()
  await ending.getByRole('button', { name: 'I have kept it' }).click()
  await ending.getByText('4 keys that you may see.').waitFor()
  await ending.context().close()
  for (const name of ['short', 'brief']) s.cli(admin, 'key', 'revoke', name)

  // Keys with less: what they may not do is there before they try.
  const made2 = (name, ...args) => s.cli(admin, 'key', 'create', name, ...args).trim()
  const reader = made2('reader', '--rights', 'read', '--stores', '*'), team = made2('team', '--rights', 'admin', '--stores', 'team-*')
  const other = await open(s.base)
  await signInWith(other, view, s.base, '#/keys', reader)
  await other.getByText('Read-only: the key administers no store').waitFor()
  same('a reader sees its own key alone', (await cells(other.locator('tbody tr').first())).slice(0, 3), ['reader', 'read', '*'])
  await other.getByRole('button', { name: 'Read-only' }).click()
  check('a reader gets no form', await other.getByRole('button', { name: 'Make the key' }).count() === 0, 'a form')
  await view(other, s.base, '#/keys?key=admin', 'main p')
  await other.getByText('There is no key called admin that you may see.').waitFor()
  same('the API about what a reader makes', (await fetch(s.base + 'ostiary/v1/keys', { method: 'POST', headers: { Authorization: 'Bearer ' + reader, 'Content-Type': 'application/json' }, body: '{"name":"more","stores":["*"],"rights":["read"]}' })).status, 403)
  await view(other, s.base, '#/nodes', 'main p')
  await other.getByText('The key may not see the nodes').waitFor()
  for (const key of ['', 'wrong', reader, team]) same('the API about nodes', (await fetch(s.base + 'ostiary/v1/nodes', { headers: key ? { Authorization: 'Bearer ' + key } : {} })).status, key === '' || key === 'wrong' ? 401 : 403)
  // A key that ends while its user looks.
  s.cli(admin, 'key', 'revoke', 'reader')
  await other.getByRole('link', { name: 'Keys' }).click()
  await other.getByText('The key was accepted before: it has expired meanwhile, or was revoked.').waitFor()
  await other.getByLabel('Key', { exact: true }).fill(team)
  await other.getByRole('button', { name: 'Sign in', exact: true }).click()
  await other.getByText('1 key that you may see.').waitFor()
  await looks(s, { keys: ['#/keys', 'tbody tr'], key: ['#/keys?key=group&store=acme', '.verdict'], single: ['#/nodes', 'main p:has-text("single server")'] }, admin)
  await page.context().close()
  await other.context().close()
}

async function nodes({ Server, load, open, view, same, check, looks, servers, program, folder, accessible }) {
  const flags = ['--cluster', '--nodes-listen', '127.0.0.1:0', '--zone', '<b>here']
  const first = await Server.start('node1', () => {}, ...flags)
  servers.push(first)
  const token = execFileSync(program, ['node', 'token', '--data', path.join(folder, 'node1')], { encoding: 'utf8' }).trim()
  const second = await Server.start('node2', () => {}, '--join', token, ...flags.slice(1))
  servers.push(second)
  const page = await open(second.base)
  await view(page, second.base, '#/nodes', '[aria-label="Registered nodes"] tbody tr:nth-child(2)')
  const listed = JSON.parse(execFileSync(program, ['node', 'list', '--data', path.join(folder, 'node1'), '--json'], { encoding: 'utf8' })).nodes
  const shown = await page.locator('[aria-label="Registered nodes"] tbody tr').evaluateAll((all) => all.map((r) => [...r.cells].map((c) => c.innerText.split('\n')[0].trim())))
  same('the nodes, as the command line lists them', shown.map((r) => [r[0].split(' ')[0], r[1], r[2], r[3], r[7], r[8], r[10]]), listed.map((n) => [n.state, n.address, n.zone, n.log, String(n.reads), String(n.start), n.id]))
  check('one of them is this node', shown.filter((r) => r[0].endsWith('(this node)')).length === 1, shown)
  check('the node that writes is named', (await page.locator('[aria-label="This node"]').innerText()).includes(listed.find((n) => n.writes).id), await page.locator('[aria-label="This node"]').innerText())
  await accessible(page, 'nodes')
  await looks(second, { nodes: ['#/nodes', '[aria-label="Registered nodes"] tbody tr'] })
  // The other node goes away: the page says so, and the rest stays.
  await first.stop()
  await page.locator('.trouble').first().waitFor({ timeout: 60_000 })
  check('a cut off node gives the reason', (await page.locator('.trouble').first().innerText()).length > 30, await page.locator('.trouble').first().innerText())
  await second.stop()
  await page.getByText('the server does not answer').waitFor({ timeout: 60_000 })
  await page.context().close()
}
