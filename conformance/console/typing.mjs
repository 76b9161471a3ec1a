// Plays what a user types: forms that lack a field, reasons, drafts of a model, and questions
// about revisions that are not there.
import fs from 'node:fs'

export async function typing({ Server, load, servers, open, view, check, same, text, accessible, ask, at }) {
  const s = await Server.start('typing', load)
  servers.push(s)
  const page = await open(s.base)
  const id = /[0-9A-HJKMNP-TV-Z]{26}/.exec(s.cli('', 'store', 'list', '--json'))[0]
  const kit = { view, check, same, text, accessible, ask, at }
  await forms(kit, s, page, id)
  await revisions(kit, s, page, id)
  await reasons(kit, s, page, id)
  await drafts(kit, s, page, id)
  await page.context().close()
}

// marked returns the names of the marked fields, and the one that has the focus.
const marked = (page) => page.evaluate(() => ({ fields: [...document.querySelectorAll('[aria-invalid=true]')].map((e) => e.name), focus: document.activeElement.name, told: [...document.querySelectorAll('[aria-invalid=true]')].every((e) => document.getElementById(e.getAttribute('aria-describedby'))?.textContent) }))

async function forms({ view, check, same, text, accessible, ask, at }, s, page, id) {
  // Each form, its button, what is in it, and which fields it must mark.
  const cases = [
    [ask(id, { kind: 'check' }), 'Ask', { subject: 'user:anne' }, ['relation', 'object']],
    [ask(id, { kind: 'objects' }), 'Ask', { relation: 'can_view' }, ['subject', 'object']],
    [ask(id, { kind: 'subjects' }), 'Ask', { object: 'document:budget', subject: 'user' }, ['relation']],
    [ask(id, { kind: 'entitlements' }), 'Ask', {}, ['subject', 'object']],
    [ask(id, { kind: 'batch' }), 'Ask', {}, ['questions']],
    [at(id, 'watch'), 'Watch', { relation: 'can_view', objects: 'document:budget' }, ['subjects']],
    [at(id, 'watch'), 'Watch', { relation: 'can_view', subjects: 'user:anne' }, ['objects']],
    [at(id, 'watch'), 'Watch', { relation: 'can_view', subjects: 'user', objects: 'document' }, ['objects']],
    [at(id, 'time'), 'Compare', { subject: 'user', relation: 'can_view', object: 'document' }, ['from']],
    [at(id, 'time'), 'Compare', { subject: 'user', relation: 'can_view', object: 'document', from: 'one' }, ['from']],
    [at(id, 'what-if'), 'Try it', { questions: 'user:bob can_view document:budget' }, ['added']],
  ]
  for (const [fragment, button, fields, want] of cases) {
    await page.goto('about:blank')
    await view(page, s.base, fragment, `button:text-is("${button}")`)
    for (const [name, value] of Object.entries(fields)) await page.locator(`main [name="${name}"]`).fill(value)
    const before = page.url()
    await page.getByRole('button', { name: button, exact: true }).click()
    await page.locator('[aria-invalid=true]').first().waitFor()
    same(`what lacks in ${fragment} with ${Object.keys(fields)}`, await marked(page), { fields: want, focus: want[0], told: true })
    same(`${fragment} stays`, page.url(), before)
  }
  await page.goto('about:blank')
  await view(page, s.base, ask(id, { kind: 'check' }), '.soft:has-text("can_view")')
  await page.getByRole('button', { name: 'Ask', exact: true }).click()
  await page.locator('[aria-invalid=true]').first().waitFor()
  await accessible(page, 'a form that lacks fields')
  await page.keyboard.type('user:bob')
  same('a field that is filled in is not marked', (await marked(page)).fields, ['relation', 'object'])
  await page.getByLabel('Relation').fill('can_view')
  await page.getByLabel('Object').fill('document:budget')
  await page.keyboard.press('Enter')
  await page.locator('.verdict:has-text("Denied")').waitFor()

  // What blocks is not painted like what grants.
  check('the step that blocks has its mark', (await page.locator('.node.blocks .title').allTextContents()).some((t) => t.includes('⊘ document:budget#blocked')), await page.locator('svg').last().innerHTML())
  check('its edge has words', (await page.locator('.edge.blocks .label').allTextContents()).some((t) => t.includes('but not: this blocks')), await page.locator('svg').last().innerHTML())
  same('nothing is green under this denial', await page.locator('.node.true, .edge.true, .steps li.true').count(), 0)
  check('the steps have words', (await page.locator('.steps li.blocks').first().innerText()).endsWith('blocks it'), await page.locator('.steps').innerText())
  await accessible(page, 'a denial by a step that blocks')
}

async function revisions({ view, check, same, text, at }, s, page, id) {
  const compare = { subject: 'user', relation: 'can_view', object: 'document', from: '1', to: '99' }
  await page.goto('about:blank')
  await view(page, s.base, at(id, 'time', compare), '[aria-label=Difference] .trouble')
  check('a revision that is not there yet', (await text(page, '[aria-label=Difference] .trouble')).includes('There is no revision 99 yet: the newest one is 2.'), await text(page, '[aria-label=Difference]'))
  s.cli('', 'tuple', 'write', 'user:eve', 'viewer', 'document:budget', '--reason', 'elsewhere') // revision 3
  await page.getByLabel('To revision').fill('3')
  await page.getByRole('button', { name: 'Compare' }).click()
  await page.locator('[aria-label=Difference] .found li').first().waitFor()
  check('a revision that another client made is known', (await text(page, '.timeline')).includes('now, revision 3'), await text(page, '.timeline'))
  await page.goto('about:blank')
  await view(page, s.base, at(id, 'watch', { subjects: 'user', relation: 'can_view', objects: 'document:budget' }), '.state.watching')
  s.cli('', 'tuple', 'delete', 'user:eve', 'viewer', 'document:budget') // revision 4
  await page.locator('[role=log] li li').first().waitFor()
  await page.getByText('now, revision 4').waitFor()
}

async function reasons({ view, check, same, at }, s, page, id) {
  await page.goto('about:blank')
  await view(page, s.base, at(id, 'tuples'), 'table.tuples tbody tr')
  await page.getByRole('button', { name: 'Read-only' }).click()
  await page.getByLabel('New subject').fill('user:eve')
  await page.getByRole('button', { name: 'Write' }).click()
  await page.locator('[aria-invalid=true]').first().waitFor()
  same('a write lacks fields', await marked(page), { fields: ['new-relation', 'new-object'], focus: 'new-relation', told: true })
  await page.getByLabel('New relation').fill('viewer')
  await page.getByLabel('New object').fill('document:budget')
  await page.getByLabel('Reason').fill('TICKET-7')
  await page.getByRole('button', { name: 'Write' }).click()
  await page.getByText('wrote document:budget#viewer@user:eve, revision 5').waitFor()
  same('a reason is for one write', await page.getByLabel('Reason').inputValue(), '')
  await page.getByRole('button', { name: 'Undo' }).click()
  await page.getByText('undone, revision 6').waitFor()
  await page.getByRole('button', { name: 'Remove document:budget#blocked@user:bob' }).click()
  await page.getByText('removed document:budget#blocked@user:bob, revision 7').waitFor()
  await page.getByRole('button', { name: 'Undo' }).click()
  await page.getByText('undone, revision 8').waitFor()
  await page.setInputFiles('input[type=file]', { name: 'one.jsonl', mimeType: 'text/plain', buffer: Buffer.from('{"user":"user:a","relation":"viewer","object":"folder:x"}\n') })
  await page.getByLabel('Reason').fill('TICKET-8')
  await page.getByRole('button', { name: 'Import 1 tuple' }).click()
  await page.getByText('imported 1 tuple of one.jsonl, all new').waitFor()
  await page.getByRole('button', { name: 'Undo' }).click()
  await page.getByText('undone, revision 10').waitFor()
  const log = s.cli('', 'changes', '--json').trim().split('\n').map((l) => JSON.parse(l)).slice(-6)
  same('the reasons in the log', log.map((e) => e.reason ?? ''), ['TICKET-7', 'undo of revision 5', '', 'undo of revision 7', 'TICKET-8', 'undo of revision 9'])
}

async function drafts({ view, check, same, text, accessible, at }, s, page, id) {
  const go = (name) => page.getByRole('navigation', { name: 'Pages of the store' }).getByRole('link', { name, exact: true }).click()
  const typed = () => page.locator('.cm-content').innerText()
  const note = page.locator('.past-note')
  await go('Model')
  await page.locator('.cm-content').click()
  await page.keyboard.press('Control+Home')
  await page.keyboard.type('# mine\n')
  await note.waitFor()
  check('a draft is said', (await note.innerText()).includes('kept in this tab'), await note.innerText())
  await accessible(page, 'a draft of a model')
  await page.getByRole('link', { name: 'What would it change?' }).click()
  await page.getByRole('heading', { name: 'What if' }).waitFor()
  await page.goBack()
  await note.waitFor()
  check('back brings the draft', (await typed()).startsWith('# mine'), await typed())
  await go('Tuples')
  await page.locator('table.tuples tbody tr').first().waitFor()
  await go('Model')
  await note.waitFor()
  check('another page does not lose the draft', (await typed()).startsWith('# mine'), await typed())
  await page.reload()
  await note.waitFor()
  check('a page that is loaded again shows what is stored, and says that there is a draft', (await note.innerText()).includes('switch to edit') && !(await typed()).includes('# mine'), await note.innerText())
  fs.writeFileSync(`${s.data}.fga`, '# theirs\n' + s.cli('', 'schema', 'get'))
  s.cli('', 'schema', 'write', `${s.data}.fga`) // by another client
  await page.getByRole('button', { name: 'Read-only' }).click()
  await page.locator('.cm-content:has-text("# mine")').waitFor()
  await page.reload()
  await page.getByRole('button', { name: 'Read-only' }).click()
  await page.getByText('Another model was saved since the draft was begun').waitFor()
  await page.getByRole('button', { name: 'Throw the draft away' }).click()
  await page.locator('.cm-content:has-text("# theirs")').waitFor()
  check('a draft that is thrown away is gone', !(await typed()).includes('# mine') && await note.count() === 0 && await page.evaluate(() => sessionStorage.length) === 0, await typed())

  // Typing over a selection, which a browser would do with an inline style; saving ends the draft.
  const whole = (await typed()).replace('# theirs', '# whole')
  await page.locator('.cm-content').click()
  await page.keyboard.press('Control+Home')
  for (let i = 0; i < 3; i++) await page.keyboard.press('Shift+ArrowDown')
  await page.keyboard.type('x')
  await page.keyboard.press('Control+a')
  await page.keyboard.type('y')
  await page.locator('.trouble').waitFor()
  same('what is typed over a selection', (await typed()).trim(), 'y')
  await page.keyboard.press('Control+a')
  await page.keyboard.insertText(whole)
  await page.getByText('The model is valid. It is not saved yet.').waitFor()
  await page.getByLabel('Reason').fill('TICKET-9')
  await page.getByRole('button', { name: 'Save model' }).click()
  await page.getByText(/is the current one, revision 12/).waitFor()
  same('a saved draft is gone', { note: await note.count(), storage: await page.evaluate(() => sessionStorage.length), reason: await page.getByLabel('Reason').inputValue() }, { note: 0, storage: 0, reason: '' })
}
