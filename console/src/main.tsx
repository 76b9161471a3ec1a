// The console: its frame, and the view that the address names.
import "./console.css";
import { render } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { api, key, Failure, onRevision } from "./api";
import { drafts } from "./drafts";
import { identityToken } from "./identity";
import { Trouble, useLoaded } from "./load";
import { Name, visible } from "./names";
import { forget, take } from "./oidc";
import { Ask } from "./pages/ask";
import { Audit } from "./pages/audit";
import { Decisions } from "./pages/decisions";
import { Identity } from "./pages/identity";
import { Keys } from "./pages/keys";
import { ModelPage } from "./pages/model";
import { Nodes } from "./pages/nodes";
import { Policies } from "./pages/policies";
import { Stores } from "./pages/stores";
import { Time } from "./pages/time";
import { Tuples } from "./pages/tuples";
import { Watch } from "./pages/watch";
import { WhatIf } from "./pages/whatif";
import { Palette, type Command } from "./palette";
import { go, link, mayLeave, serverPages, storePages, useRoute, type Route } from "./route";
import { SessionContext, useSession, type Session } from "./session";
import { Returning, SignIn, Who } from "./signin";
import { Timeline } from "./timeline";

const inStore = Object.keys(storePages) as (keyof typeof storePages)[];
const inServer = Object.keys(serverPages) as (keyof typeof serverPages)[];

// What a provider of the sign-in has answered leaves the address before anything else happens.
const answered = take();

function App() {
	const route = useRoute();
	const [answer, setAnswer] = useState(answered);
	const [refusal, setRefusal] = useState<Failure>();
	const [editing, setEditing] = useState(false), [version, setVersion] = useState(0), [tries, setTries] = useState(0);
	const [rights, setRights] = useState<readonly string[]>();
	const [palette, setPalette] = useState(false);
	const [dark, setDark] = useState(matchMedia("(prefers-color-scheme: dark)").matches);
	useEffect(() => { document.documentElement.dataset["theme"] = dark ? "dark" : "light"; }, [dark]);
	const signOut = () => { if (!mayLeave()) return; key.remove(); forget(); drafts.forget(); identityToken.remove(); setEditing(false); setRights(undefined); setRefusal(undefined); setTries((n) => n + 1); go("#/"); };
	const session = useMemo<Session>(() => ({
		refused: setRefusal, editing, setEditing, version, changed: () => setVersion((v) => v + 1), rights: [], setRights, head: 0,
	}), [editing, version]);
	const reader = route.store !== "" && rights !== undefined && !rights.includes("write") && !rights.includes("schema");
	useEffect(() => { if (reader) setEditing(false); }, [reader]);
	const at = route.params.get("at") ?? "";
	const commands: Command[] = [
		...inServer.map((p) => ({ name: `Go to ${serverPages[p]}`, run: () => go(link("", p)) })),
		...(route.store ? inStore.map((p) => ({ name: `Go to ${storePages[p]}`, run: () => go(link(route.store, p, { at })) })) : []),
		...(!reader ? [{ name: editing ? "Switch to read-only" : "Switch to edit", run: () => setEditing(!editing) }] : []),
		{ name: dark ? "Light colors" : "Dark colors", run: () => setDark(!dark) },
		...(key.get() ? [{ name: "Sign out", run: signOut }] : []),
	];
	return (
		<SessionContext.Provider value={session}>
			<a class="skip" href="#main" onClick={(e) => { e.preventDefault(); document.getElementById("main")?.focus(); }}>Skip to the page</a>
			<header>
				<a class="brand" href="#/">Ostiary</a>
				<span class="grow" />
				<button type="button" onClick={() => setPalette(true)}>Commands <kbd>Ctrl K</kbd></button>
				{reader && !refusal && <span class="soft" id="reader">The key may only read this store</span>}
				{!refusal && <button type="button" aria-pressed={editing} aria-describedby={reader ? "reader" : undefined} disabled={reader} class={editing ? "editing" : ""} onClick={() => setEditing(!editing)}>{editing ? "Editing" : "Read-only"}</button>}
				{!refusal && <Who again={(why) => { if (mayLeave()) setRefusal(why); }} />}
				{key.get() && <button type="button" onClick={signOut}>Sign out</button>}
			</header>
			<Palette commands={commands} open={palette} setOpen={setPalette} />
			{answer
				? <Returning answer={answer} done={(trouble) => { setAnswer(undefined); setRefusal(trouble); }} />
				: refusal ? <SignIn error={refusal} done={() => { forget(); setRefusal(undefined); setTries((n) => n + 1); }} />
				: route.store ? <InStore key={`${route.store} ${tries}`} route={route} /> : <Plain key={tries} route={route} />}
		</SessionContext.Provider>
	);
}

function useTitle(text: string) {
	useEffect(() => { document.title = `${visible(text)} · Ostiary console`; }, [text]);
}

/** Plain is the frame of the pages of the server. */
function Plain({ route }: { route: Route }) {
	const page = route.page as keyof typeof serverPages;
	useTitle(serverPages[page]);
	return (
		<>
			<nav class="pages" aria-label="Pages of the server">
				{inServer.map((p) => <a key={p} href={link("", p)} aria-current={p === page ? "page" : undefined}>{serverPages[p]}</a>)}
			</nav>
			<main id="main" tabIndex={-1}><ServerView route={route} /></main>
		</>
	);
}

function ServerView({ route }: { route: Route }) {
	switch (route.page) {
		case "keys": return <Keys route={route} />;
		case "identity": return <Identity route={route} />;
		case "nodes": return <Nodes />;
		case "audit": return <Audit route={route} />;
		default: return <Stores route={route} />;
	}
}

/** InStore is the frame of the pages of one store. */
function InStore({ route }: { route: Route }) {
	const session = useSession();
	const store = useLoaded((s) => api.store(route.store, s), [route.store], session.version);
	const [newest, setNewest] = useState(0); // of those that answers and watches have named
	useEffect(() => onRevision((of, revision) => { if (of === route.store) setNewest((n) => Math.max(n, revision)); }), [route.store]);
	const name = store.value?.name || route.store, head = Math.max(store.value?.revision ?? 0, newest);
	const at = route.params.get("at") ?? "";
	useTitle(`${storePages[route.page as keyof typeof storePages]} · ${name}`);
	const rights = store.value?.rights, known = rights?.join(" ");
	useEffect(() => session.setRights(rights), [known]);
	useEffect(() => () => session.setRights(undefined), []);
	const below = useMemo(() => ({ ...session, head, rights: rights ?? [] }), [session, head, known]);
	return (
		<SessionContext.Provider value={below}>
			<nav class="pages" aria-label="Pages of the store">
				<a href="#/">Stores</a><span aria-hidden="true">›</span><strong><Name text={name} /></strong>
				{inStore.map((p) => <a key={p} href={link(route.store, p, { at })} aria-current={p === route.page ? "page" : undefined}>{storePages[p]}</a>)}
			</nav>
			{store.value && <Timeline route={route} head={head} />}
			<main id="main" tabIndex={-1}>
				<Trouble error={store.error} />
				{store.value && <View route={route} />}
			</main>
		</SessionContext.Provider>
	);
}

function View({ route }: { route: Route }) {
	switch (route.page) {
		case "model": return <ModelPage route={route} />;
		case "tuples": return <Tuples route={route} />;
		case "time": return <Time route={route} />;
		case "what-if": return <WhatIf route={route} />;
		case "watch": return <Watch route={route} />;
		case "decisions": return <Decisions route={route} />;
		case "policies": return <Policies route={route} />;
		default: return <Ask route={route} />;
	}
}

const root = document.getElementById("app")!;
root.replaceChildren();
render(<App />, root);
