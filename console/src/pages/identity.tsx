// The Identity API (Keystone): its projects, the effective roles of a user with their reason, and tokens.
import { useState } from "preact/hooks";
import type { Failure } from "../api";
import { Field, ViewForm } from "../fields";
import { identity, identityToken, type Assignment, type Project, type Ref, type Token } from "../identity";
import { Trouble, useLoaded, Waiting } from "../load";
import { Name } from "../names";
import { link, type Route } from "../route";
import { useSession } from "../session";
import { when } from "../text";

const views = { projects: "Projects", roles: "Effective roles", tokens: "Tokens" } as const;

export function Identity({ route }: { route: Route }) {
	const [turn, setTurn] = useState(0);
	const again = () => setTurn((n) => n + 1);
	const view = (Object.hasOwn(views, route.params.get("view") ?? "") ? route.params.get("view") : "projects") as keyof typeof views;
	const mine = useLoaded(async (s) => (identityToken.get() ? identity.token(identityToken.get(), s) : undefined), [], turn);
	return (
		<>
			<h1>Identity</h1>
			{identityToken.get() === "" || mine.error
				? <SignIn error={mine.error} done={again} />
				: (
					<>
						<Waiting of={mine} />
						{mine.value && <p>Signed in as <Full of={mine.value.user} /> on <Scope of={mine.value} /> with {mine.value.roles?.map((r) => r.name).join(", ") || "no role"}, until {when(mine.value.expires_at)}. <button type="button" onClick={() => { identityToken.remove(); again(); }}>Sign out of Identity</button></p>}
						<nav class="tabs" aria-label="Parts of Identity">{Object.entries(views).map(([v, title]) => <a key={v} href={link("", "identity", { view: v })} aria-current={v === view ? "page" : undefined}>{title}</a>)}</nav>
						{mine.value && (view === "projects" ? <Projects /> : view === "roles" ? <Roles route={route} /> : <Tokens mine={mine.value} ended={again} />)}
					</>
				)}
		</>
	);
}

function Full({ of }: { of: Ref }) {
	return <><Name text={of.name ?? of.id} />{of.domain && <span class="soft"> of <Name text={of.domain.name ?? of.domain.id} /></span>}</>;
}

function Scope({ of }: { of: Pick<Token, "project" | "domain" | "system"> }) {
	if (of.system) return <>the whole system</>;
	if (of.project) return <>the project <Full of={of.project} /></>;
	return of.domain ? <>the domain <Name text={of.domain.name ?? of.domain.id} /></> : <>nothing (unscoped)</>;
}

function SignIn({ error, done }: { error: Failure | undefined; done: () => void }) {
	const [f, setF] = useState({ user: "", domain: "Default", password: "", passcode: "", kind: "system", target: "" });
	const [trouble, setTrouble] = useState<Failure>();
	const there = useLoaded((s) => identity.there(s), []);
	const set = (member: keyof typeof f) => (e: { currentTarget: HTMLInputElement }) => { const v = e.currentTarget.value; setF((now) => ({ ...now, [member]: v })); };
	const field = (label: string, member: keyof typeof f) => <label class="field"><span>{label}</span><input value={f[member]} onInput={set(member)} autocomplete="off" autocapitalize="off" spellcheck={false} /></label>;
	const secret = (label: string, member: keyof typeof f) => <label class="field"><span>{label}</span><input type="password" value={f[member]} onInput={set(member)} autocomplete="off" spellcheck={false} /></label>;
	async function signIn() {
		setTrouble(undefined);
		try {
			const target = { name: f.target, domain: { name: f.domain } };
			await identity.signIn(f.user, f.domain, f.password, f.passcode, f.kind === "system" ? { system: { all: true } } : f.kind === "project" ? { project: target } : { domain: { name: f.target || f.domain } });
			done();
		} catch (e) {
			setTrouble(e as Failure);
		}
		setF((now) => ({ ...now, password: "", passcode: "" }));
	}
	if (there.error?.code.startsWith("404")) return <p>This server has no Identity API (Keystone): <code>ostiary console</code> has none, and <code>ostiary serve</code> has it unless <code>--doors</code> leaves it out.</p>;
	if (there.error?.code.startsWith("503")) return <><p>The Identity API (Keystone) of this server is not set up.</p><Trouble error={there.error} /></>;
	if (there.loading) return <Waiting of={there} />;
	return (
		<>
			<p>The Identity API (Keystone) has its own users, who sign in with a password and get a token of a project, a domain or the system. Keys of the server do not apply. The token stays in this tab.</p>
			{identityToken.get() !== "" && error && <p>The token of this tab is not accepted any more: it has expired, or was revoked. Sign in again.</p>}
			<Trouble error={trouble ?? (identityToken.get() ? error : undefined)} />
			<form class="fields" onSubmit={(e) => { e.preventDefault(); signIn(); }}>
				{field("User", "user")}{field("Domain", "domain")}{secret("Password", "password")}{secret("One-time password, if needed", "passcode")}
				<label class="field"><span>Scope</span><select value={f.kind} onChange={(e) => { const v = e.currentTarget.value; setF((now) => ({ ...now, kind: v })); }}><option value="system">system</option><option value="project">project</option><option value="domain">domain</option></select></label>
				{f.kind !== "system" && field(f.kind === "project" ? "Project" : "Domain of the scope", "target")}
				<button type="submit" class="main" disabled={f.user === "" || f.password === ""}>Sign in to Identity</button>
			</form>
			<p class="soft">An operator sets Identity up with <code>ostiary keystone bootstrap</code>.</p>
		</>
	);
}

/** shownMax bounds the projects and rows in the page. */
const shownMax = 2000;

function Projects() {
	const all = useLoaded((s) => identity.projects(s), []);
	const list = all.value?.projects ?? [];
	const below = new Map<string, Project[]>(), known = new Set(list.map((p) => p.id));
	for (const p of list.slice(0, shownMax)) {
		const parent = p.parent_id && known.has(p.parent_id) ? p.parent_id : "";
		below.set(parent, [...(below.get(parent) ?? []), p]);
	}
	const tree = (of: string) => {
		const children = (below.get(of) ?? []).sort((a, b) => (a.name ?? "").localeCompare(b.name ?? ""));
		return children.length === 0 ? null : (
			<ul class={of === "" ? "tree" : ""}>{children.map((p) => (
				<li key={p.id}>
					{p.is_domain ? <strong><Name text={p.name ?? p.id} /></strong> : <a href={link("", "identity", { view: "roles", project: p.id })}><Name text={p.name ?? p.id} /></a>}
					{" "}<span class="soft">{p.is_domain ? "domain" : "project"}{!p.enabled && ", disabled"} <code>{p.id}</code>{p.description && <> <Name text={p.description} /></>}</span>
					{tree(p.id)}
				</li>
			))}</ul>
		);
	};
	return (
		<section aria-label="Projects">
			<Waiting of={all} />
			<Trouble error={all.error} />
			{all.value && !all.value.all && <p>The user may not list all projects: these are those on which the user has a role.</p>}
			{all.value && list.length === 0 && <p>There is no project. A project owns things, is in a domain or below another project, and roles on it are given to users and groups.</p>}
			{tree("")}
			{list.length > shownMax && <p class="soft">The first {shownMax} of {list.length}.</p>}
		</section>
	);
}

/** Reason is why a user has an effective role, in the order of the walk. */
interface Reason {
	text: string;
	name?: string;
}

/** reasons returns why a user has an effective role, from the links that the API gives. */
async function reasons(a: Assignment, signal: AbortSignal, nameOf: typeof identity.nameOf): Promise<Reason[]> {
	const out: Reason[] = [], at = (link: string, part: string) => decodeURIComponent(new RegExp(`/${part}/([^/?]+)`).exec(link)?.[1] ?? "");
	if (a.links.membership) out.push({ text: "as a member of the group", name: await nameOf("groups", at(a.links.membership, "groups"), signal) });
	if (a.links.assignment.includes("/OS-INHERIT/")) {
		const project = at(a.links.assignment, "projects"), domain = at(a.links.assignment, "domains");
		out.push({ text: domain ? "inherited from the domain" : "inherited from the project", name: await nameOf(domain ? "domains" : "projects", domain || project, signal) });
	}
	if (a.links.prior_role) out.push({ text: "implied by the role", name: await nameOf("roles", at(a.links.prior_role, "implies"), signal) });
	return out.length > 0 ? out : [{ text: "assigned to the user" }];
}

function Roles({ route }: { route: Route }) {
	const user = route.params.get("user") ?? "", project = route.params.get("project") ?? "";
	const found = useLoaded(async (s) => {
		if (user === "" && project === "") return undefined;
		const all = await identity.assignments(await identity.find("users", user, s), await identity.find("projects", project, s), s);
		const asked = new Map<string, Promise<string>>(); // a name is asked for once
		const nameOf: typeof identity.nameOf = (kind, id, signal) => asked.get(`${kind}/${id}`) ?? asked.set(`${kind}/${id}`, identity.nameOf(kind, id, signal)).get(`${kind}/${id}`)!;
		return Promise.all(all.slice(0, shownMax).map(async (a) => ({ a, why: await reasons(a, s, nameOf) })));
	}, [user, project]);
	return (
		<section aria-label="Effective roles">
			<ViewForm route={route} page="identity" keep={{ view: "roles" }} button="Show">
				<Field name="user" label="User (name or id)" value={user} />
				<Field name="project" label="Project (name or id)" value={project} />
			</ViewForm>
			{user === "" && project === "" && <p>Name a user, a project, or both: you see each role that counts, and why: given to the user or to a group, inherited from above, or implied by another role.</p>}
			<Waiting of={found} />
			<Trouble error={found.error} />
			{found.value?.length === 0 && <p role="status">No role.</p>}
			{found.value && found.value.length > 0 && (
				<div class="scroll" tabIndex={0} role="region" aria-label="Roles">
					<table>
						<thead><tr><th scope="col">User</th><th scope="col">Role</th><th scope="col">On</th><th scope="col">Because</th></tr></thead>
						<tbody>{found.value.map(({ a, why }, i) => (
							<tr key={i}>
								<td>{a.user && <Full of={a.user} />}</td><td><Name text={a.role.name ?? a.role.id} /></td><td><Scope of={a.scope} /></td>
								<td>{why.map((w, n) => <div key={n}>{w.text}{w.name !== undefined && <> <Name text={w.name} /></>}</div>)}</td>
							</tr>
						))}</tbody>
					</table>
				</div>
			)}
		</section>
	);
}

function Tokens({ mine, ended }: { mine: Token; ended: () => void }) {
	const { editing } = useSession();
	const [turn, setTurn] = useState(0), [text, setText] = useState(""), [known, setKnown] = useState<Token>(), [error, setError] = useState<Failure>(), [done, setDone] = useState("");
	const events = useLoaded((s) => identity.revocations(s), [], turn);
	const attempt = async (work: () => Promise<void>) => {
		setError(undefined);
		setDone("");
		try { await work(); } catch (e) { setError(e as Failure); }
	};
	return (
		<section aria-label="Tokens">
			<h2>The token of this tab</h2>
			<About token={mine} />
			{editing && <p><button type="button" onClick={() => attempt(async () => { await identity.revoke(identityToken.get()); ended(); })}>Revoke the token of this tab</button></p>}
			<h2>Another token</h2>
			<form class="fields" onSubmit={(e) => { e.preventDefault(); attempt(async () => setKnown(await identity.token(text.trim()))); }}>
				<label class="field"><span>Token (it stays on this page)</span><input type="password" value={text} onInput={(e) => { setText(e.currentTarget.value); setKnown(undefined); }} autocomplete="off" spellcheck={false} /></label>
				<button type="submit" disabled={text.trim() === ""}>What is it?</button>
			</form>
			<Trouble error={error} />
			{done && <p class="ok" role="status">{done}</p>}
			{known && <About token={known} />}
			{known && (editing ? <p><button type="button" onClick={() => attempt(async () => { await identity.revoke(text.trim()); setKnown(undefined); setDone("The token is revoked."); setTurn((n) => n + 1); })}>Revoke this token</button></p> : <p class="soft">Read-only: switch to edit at the top of the page to revoke it.</p>)}
			<h2>Revocations</h2>
			<Waiting of={events} />
			<Trouble error={events.error} />
			{events.value?.length === 0 && <p>None. A revocation ends tokens before their time: one token, or all of a user that were issued before.</p>}
			{events.value && events.value.length > 0 && (
				<div class="scroll" tabIndex={0} role="region" aria-label="Revocations">
					<table>
						<thead><tr><th scope="col">Revoked</th><th scope="col">Ends</th><th scope="col">Issued before</th></tr></thead>
						<tbody>{events.value.slice(-shownMax).reverse().map((e, i) => (
							<tr key={i}><td class="time">{when(e.revoked_at)}</td><td>{[["token", e.audit_id], ["chain of tokens", e.audit_chain_id], ["tokens of the user", e.user_id], ["tokens of the trust", e["OS-TRUST:trust_id"]]].filter(([, id]) => id).map(([what, id]) => <div key={what}>{what} <code>{id}</code></div>)}</td><td class="time">{when(e.issued_before)}</td></tr>
						))}</tbody>
					</table>
				</div>
			)}
		</section>
	);
}

function About({ token: t }: { token: Token }) {
	return <p><Full of={t.user} /> on <Scope of={t} />, roles: {t.roles?.map((r) => r.name).join(", ") || "none"}; by {t.methods.join(", ")}; issued {when(t.issued_at)}, ends {when(t.expires_at)}; audit id <code>{t.audit_ids[0]}</code></p>;
}
