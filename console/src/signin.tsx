// Signing in with a key, or at a provider that the server trusts. The key, or the token of the
// provider, goes into the storage of the tab, and nowhere else.
import { useEffect, useState } from "preact/hooks";
import { Failure, key } from "./api";
import { Trouble } from "./load";
import { Name } from "./names";
import { begin, finish, providers, signedIn, type Answer, type Provider } from "./oidc";

const clock = (time: number) => new Date(time).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
const failureOf = (e: unknown) => new Failure(0, "", (e as Error).message);

/** FirstKey is how to get in again, without a key that administers. */
export function FirstKey() {
	return <>Stop the server, run <code>ostiary key create NAME --stores '*' --rights admin --expires never</code> on its data folder, and start it again.</>;
}

/** SignIn asks for a key, or for a sign-in at a provider. error is why the last one was refused. */
export function SignIn({ error, done }: { error: Failure; done: () => void }) {
	const [known, setKnown] = useState<Provider[]>([]), [trouble, setTrouble] = useState<Failure>();
	useEffect(() => {
		const stop = new AbortController();
		providers(stop.signal).then(setKnown, () => {}); // with none, there is the key
		return () => stop.abort();
	}, []);
	async function at(issuer: string) {
		setTrouble(undefined);
		try {
			const now = (await providers(new AbortController().signal)).find((p) => p.issuer === issuer);
			if (!now) throw new Error(`The server does not trust ${issuer} any more.`);
			await begin(now);
		} catch (e) {
			setTrouble(failureOf(e));
		}
	}
	return (
		<main id="main" class="signin" tabIndex={-1}>
			<h1>Sign in</h1>
			<p>This server needs to know who you are. What you sign in with stays in this tab until you sign out or close it, and the console can do only what it allows.</p>
			<Why error={error} />
			{known.map((p) => (
				<p key={p.issuer}><button type="button" class="main" onClick={() => at(p.issuer)}>Sign in at <Name text={p.issuer.replace(/^https?:\/\//, "")} /></button></p>
			))}
			<Trouble error={trouble} />
			<form
				class="fields"
				onSubmit={(e) => {
					e.preventDefault();
					const field = e.currentTarget.elements.namedItem("key") as HTMLInputElement;
					key.set(field.value.trim());
					field.value = "";
					done();
				}}
			>
				<label class="field"><span>Key</span><input name="key" type="password" required autocomplete="off" spellcheck={false} /></label>
				<button type="submit" class={known.length > 0 ? "" : "main"}>Sign in</button>
			</form>
			<p class="soft">A key that administers all stores makes others, on the page Keys or with <code>ostiary key create</code>. There is no such key, or it is lost? <FirstKey /></p>
		</main>
	);
}

/** Why shows why the user has to sign in again. */
function Why({ error }: { error: Failure }) {
	const signed = signedIn();
	if (error.status !== 0 && !key.get()) return null; // nothing was sent that could be refused
	return (
		<>
			<Trouble error={error} />
			{error.status === 401 && signed && (signed.expires > 0 && signed.expires <= Date.now()
				? <p>Your sign-in at <Name text={signed.issuer} /> ended at {clock(signed.expires)}. Sign in again: you come back to this view.</p>
				: <p>The server does not accept the {signed.kind} of <Name text={signed.issuer} />, which is for <Name text={signed.audience} />: its operator compares this with <code>--auth-oidc-audience</code>; the log of the server has the reason.</p>)}
			{error.status === 401 && !signed && key.accepted() && <p>The key was accepted before: it has expired meanwhile, or was revoked.</p>}
		</>
	);
}

/** Returning finishes the sign-in that a provider has answered. done gets what went wrong. */
export function Returning({ answer, done }: { answer: Answer; done: (trouble?: Failure) => void }) {
	useEffect(() => {
		finish(answer).then((token) => { key.set(token); done(); }, (e) => done(failureOf(e)));
	}, []);
	return <main id="main" class="signin" tabIndex={-1}><p role="status">Signing in…</p></main>;
}

/** Who shows who has signed in at a provider, and until when. */
export function Who({ again }: { again: (why: Failure) => void }) {
	const signed = signedIn();
	const [, tick] = useState(0);
	useEffect(() => {
		if (!signed?.expires) return;
		const timer = setTimeout(() => tick((n) => n + 1), Math.min(Math.max(signed.expires - Date.now(), 0) + 100, 2 ** 31 - 1));
		return () => clearTimeout(timer);
	}, [signed?.expires]);
	if (!signed) return null;
	const ended = signed.expires > 0 && signed.expires <= Date.now();
	return (
		<>
			<span class="soft" title={`${signed.who} at ${signed.issuer}`}><Name text={signed.who} />{signed.expires > 0 && (ended ? <>: the sign-in has ended</> : <>, until {clock(signed.expires)}</>)}</span>
			{ended && <button type="button" onClick={() => again(new Failure(401, "bad_credentials", "the sign-in has ended"))}>Sign in again</button>}
		</>
	);
}
