// Plays an administrator of Identity, and compares the page with the Identity API.
import { execFileSync } from 'node:child_process'
import path from 'node:path'

export async function identity({ Server, open, view, check, same, text, accessible, looks, program, folder, servers, pictures }) {
  const hostile = '<img src=x onerror=harm()>'
  execFileSync(program, ['--data', path.join(folder, 'identity'), 'keystone', 'bootstrap', '--bootstrap-region-id', 'RegionOne'], { env: { ...process.env, OS_BOOTSTRAP_PASSWORD: 'secret' }, stdio: ['ignore', 'pipe', 'pipe'] })
  let key
  const s = await Server.start('identity', (run) => { key = run('key', 'create', 'admin', '--rights', 'admin', '--stores', '*').trim() })
  servers.push(s)
  const ask = async (token, method, at, body) => {
    const r = await fetch(s.base + 'v3/' + at, { method, headers: { 'Content-Type': 'application/json', ...(token && { 'X-Auth-Token': token }) }, body: body && JSON.stringify(body) })
    if (r.status >= 300) throw new Error(`${method} ${at}: ${r.status} ${await r.text()}`)
    return { token: r.headers.get('x-subject-token'), body: r.status === 204 ? undefined : await r.json() }
  }
  const login = async (user, password, scope) => (await ask('', 'POST', 'auth/tokens', { auth: { identity: { methods: ['password'], password: { user: { name: user, domain: { name: 'Default' }, password } } }, scope } })).token
  const admin = await login('admin', 'secret', { system: { all: true } })
  const make = async (kind, body) => (await ask(admin, 'POST', kind + 's', { [kind]: body })).body[kind].id
  const roles = Object.fromEntries((await ask(admin, 'GET', 'roles')).body.roles.map((r) => [r.name, r.id]))
  const parent = await make('project', { name: hostile, domain_id: 'default', description: 'the upper one' })
  const child = await make('project', { name: 'child', domain_id: 'default', parent_id: parent })
  const anne = await make('user', { name: 'anne', domain_id: 'default', password: 'annes password' }), group = await make('group', { name: 'crew', domain_id: 'default' })
  await ask(admin, 'PUT', `groups/${group}/users/${anne}`)
  await ask(admin, 'PUT', `projects/${child}/users/${anne}/roles/${roles.reader}`)
  await ask(admin, 'PUT', `OS-INHERIT/projects/${parent}/groups/${group}/roles/${roles.manager}/inherited_to_projects`)

  const page = await open(s.base)
  await view(page, s.base, '', 'input[name=key]')
  await page.getByLabel('Key', { exact: true }).fill(key)
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
  await page.getByRole('link', { name: 'Identity' }).click()
  await page.getByRole('button', { name: 'Sign in to Identity' }).waitFor()
  const signIn = async (user, password, project) => {
    await page.getByLabel('User', { exact: true }).fill(user)
    await page.getByLabel('Password', { exact: true }).fill(password)
    await page.getByLabel('Scope').selectOption(project ? 'project' : 'system')
    if (project) await page.getByLabel('Project', { exact: true }).fill(project)
    await page.getByRole('button', { name: 'Sign in to Identity' }).click()
  }
  await signIn('admin', 'wrong')
  await page.getByText('401 Unauthorized').waitFor()
  same('a wrong password is not kept', await page.getByLabel('Password', { exact: true }).inputValue(), '')
  await accessible(page, 'sign-in to Identity')
  await signIn('admin', 'secret')
  await page.getByText('on the whole system').waitFor()
  const token = await page.evaluate(() => sessionStorage.getItem('ostiary.identity'))
  const where = await page.evaluate(() => ({ page: document.documentElement.outerHTML, url: location.href, cookies: document.cookie, long: JSON.stringify({ ...localStorage }) }))
  for (const [place, found] of Object.entries(where)) check(`no token of Identity in ${place}`, !found.includes(token) && !found.includes('"secret"'), place)

  const tree = page.getByRole('region', { name: 'Projects' })
  await tree.locator('li').first().waitFor()
  const [projects, domains] = [(await ask(admin, 'GET', 'projects')).body.projects, (await ask(admin, 'GET', 'domains')).body.domains]
  same('all projects and domains', (await tree.locator('code').allInnerTexts()).sort(), [...projects, ...domains].map((p) => p.id).sort())
  check('the tree', await tree.locator(`li:has(> span code:text-is("${parent}")) li code`).first().innerText() === child && await tree.locator(`li:has(> strong) > ul > li > span code:text-is("${parent}")`).count() === 1, await tree.innerText())
  check('a project with HTML in its name is text', await page.locator('main img').count() === 0 && (await tree.innerText()).includes(hostile), await tree.innerText())

  await tree.getByRole('link', { name: 'child' }).click()
  const rows = page.locator('[aria-label="Roles"] tbody tr')
  await rows.first().waitFor()
  same('the roles of a project have a URL', page.url(), `${s.base}console/#/identity?view=roles&project=${child}`)
  await page.getByLabel('User (name or id)').fill('anne')
  await page.getByRole('button', { name: 'Show' }).click()
  await page.waitForURL(/user=anne/)
  await rows.first().waitFor()
  const effective = (await ask(admin, 'GET', `role_assignments?effective&include_names&user.id=${anne}&scope.project.id=${child}`)).body.role_assignments
  const shown = (await rows.evaluateAll((all) => all.map((r) => [...r.cells].map((c) => c.innerText.replace(/\s+/g, ' ').trim()))))
  same('the effective roles, as the API has them', shown.map((r) => r[1]).sort(), effective.map((a) => a.role.name).sort())
  const why = Object.fromEntries(shown.map((r) => [r[1], r[3]]))
  check('the reasons', shown.some((r) => r[1] === 'reader' && r[3] === 'assigned to the user') && why.manager === `as a member of the group crew inherited from the project ${hostile}` && why.member?.endsWith('implied by the role manager'), shown)
  await accessible(page, 'effective roles')
  await page.getByLabel('User (name or id)').fill('nobody <b>')
  await page.getByRole('button', { name: 'Show' }).click()
  await page.locator('main .trouble, main [role=status]').first().waitFor()

  // Tokens: another one is looked at, and revoked in edit mode.
  const annes = await login('anne', 'annes password', { project: { id: child } })
  await page.getByRole('navigation', { name: 'Parts of Identity' }).getByRole('link', { name: 'Tokens' }).click()
  await page.getByLabel('Token (it stays on this page)').fill('no token')
  await page.getByRole('button', { name: 'What is it?' }).click()
  await page.locator('main .trouble').waitFor()
  await page.getByLabel('Token (it stays on this page)').fill(annes)
  await page.getByRole('button', { name: 'What is it?' }).click()
  await page.getByText('anne of Default on the project child').waitFor()
  check('read-only at first', await page.getByRole('button', { name: 'Revoke this token' }).count() === 0 && !page.url().includes(annes), page.url())
  await page.getByRole('button', { name: 'Read-only' }).click()
  await page.getByRole('button', { name: 'Revoke this token' }).click()
  await page.getByText('The token is revoked.').waitFor()
  same('a revoked token is refused', (await fetch(s.base + 'v3/auth/projects', { headers: { 'X-Auth-Token': annes } })).status, 401)
  const events = (await ask(admin, 'GET', 'OS-REVOKE/events')).body.events
  await page.locator('[aria-label="Revocations"] tbody tr').nth(events.length - 1).waitFor()
  same('the revocations of the API', await page.locator('[aria-label="Revocations"] tbody tr').count(), events.length)
  await accessible(page, 'tokens')

  // A user with less, whose token then ends; nothing stays after the sign-out.
  await page.getByRole('button', { name: 'Sign out of Identity' }).click()
  await signIn('anne', 'annes password', 'child')
  await page.getByRole('navigation', { name: 'Parts of Identity' }).getByRole('link', { name: 'Projects' }).click()
  await page.getByText('The user may not list all projects').waitFor()
  same('only the own projects', await tree.locator('code').allInnerTexts(), [child])
  await page.getByRole('link', { name: 'Effective roles' }).click()
  await page.getByLabel('Project (name or id)').fill(parent)
  await page.getByRole('button', { name: 'Show' }).click()
  await page.getByText('403 Forbidden').waitFor()
  await ask(admin, 'DELETE', `users/${anne}`)
  await page.reload()
  await page.getByText('it has expired, or was revoked').waitFor()
  await page.getByRole('button', { name: 'Sign out', exact: true }).click()
  same('sign-out forgets both', await page.evaluate(() => sessionStorage.length), 0)
  await page.context().close()
  await looks(s, { identity: ['#/identity', 'main li'], roles: [`#/identity?view=roles&project=${child}`, 'section'], tokens: ['#/identity?view=tokens', 'h2'] }, key, { 'ostiary.identity': admin })
  const none = await Server.start('no-identity', () => {}, '--doors', 'native')
  servers.push(none)
  const bare = await open(none.base)
  await view(bare, none.base, '#/identity', 'main p:has-text("This server has no Identity API (Keystone): ostiary console has none")')
  same('no form without the API', await bare.locator('main form').count(), 0)
  await bare.context().close()
  const later = await Server.start('later-identity', () => {})
  servers.push(later)
  const early = await open(later.base)
  await view(early, later.base, '#/identity', 'main .trouble:has-text("ostiary keystone bootstrap")')
  same('no form before the API is set up', await early.locator('main form').count(), 0)
  await early.context().close()
}
