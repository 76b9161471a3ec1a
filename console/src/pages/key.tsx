// One key: making it, its secret, which is shown once, and what can be changed.
import { useState } from "preact/hooks";
import { api, Failure, key, type CallerKey, type Limits } from "../api";
import { Field, ViewForm } from "../fields";
import { Trouble, useLoaded } from "../load";
import { Name, visible } from "../names";
import { go, link, useUnsaved, type Route } from "../route";
import { FirstKey } from "../signin";
import { when } from "../text";

const rights = ["read", "write", "schema", "admin"] as const;
type Right = (typeof rights)[number];
const words = (text: string) => text.split(/[\s,]+/).filter((w) => w !== "");

/** administers reports whether a key administers all stores, and the keys. */
export function administers(k: Pick<CallerKey, "rights" | "stores" | "doors">): boolean {
	return k.rights.includes("admin") && k.stores.includes("*") && (k.doors.length === 0 || k.doors.includes("*") || k.doors.includes("native"));
}

/** expiry reads a duration from now, a time, or "never", as the command line does. */
export function expiry(text: string): string | undefined {
	if (text === "never") return undefined;
	const [, count, unit] = /^(\d{1,6})([dhm])$/.exec(text) ?? [];
	const at = count ? Date.now() + Number(count) * { d: 864e5, h: 36e5, m: 6e4 }[unit as "d" | "h" | "m"] : /^\d{4}-\d\d-\d\dT/.test(text) ? Date.parse(text) : NaN;
	if (!(at > 0 && at < 8e15)) throw new Failure(0, "", `invalid expiry "${text}": expected a duration (90d, 12h), a time (2027-01-02T15:04:05Z), or never`);
	return new Date(at).toISOString().replace(/\.\d+/, "");
}

/** limitsOf reads limits per second; "" is no limit. */
function limitsOf(requests: string, processor: string): Limits {
	const rate = (text: string, what: string) => {
		if (text.trim() === "") return undefined;
		if (!/^\d{1,7}$/.test(text.trim())) throw new Failure(0, "", `invalid ${what} "${text}": expected a number`);
		return { per_second: Number(text) };
	};
	return JSON.parse(JSON.stringify({ requests: rate(requests, "requests a second"), processor_ms: rate(processor, "milliseconds a second") }));
}

function Input({ label, value, set, placeholder = "" }: { label: string; value: string; set: (text: string) => void; placeholder?: string }) {
	return <label class="field"><span>{label}</span><input value={value} placeholder={placeholder} onInput={(e) => set(e.currentTarget.value)} autocomplete="off" autocapitalize="off" spellcheck={false} /></label>;
}

/**
 * Secret shows a key that was made or rotated, with its secret, until the user has kept it. own is
 * true for the key that the user needs from now on, and first for the first key of the server.
 */
export function Secret({ made, own, first, done }: { made: CallerKey; own: boolean; first: boolean; done: () => void }) {
	const [copied, setCopied] = useState("");
	useUnsaved(made.secret ? `The secret of the key ${visible(made.name)} is not shown again. Leave the page without it?` : "");
	return (
		<section class="verdict unknown" role="alert" aria-label="The new key">
			<strong>The key <Name text={made.name} /> {made.secret ? "has a new secret" : "is made"}</strong>
			{made.secret && <p>This is the only time that it is shown, also by the server. Keep it now: <code class="name" data-secret>{made.secret}</code></p>}
			{first && <p>The server has a key now: it refuses every request without one, also those of this tab until it signs in.</p>}
			{made.warnings?.map((w) => <p key={w}><b>Warning:</b> {visible(w)}</p>)}
			<div class="tabs">
				{made.secret && <button type="button" onClick={() => navigator.clipboard.writeText(made.secret!).then(() => setCopied("Copied."), () => setCopied("The browser does not let the page copy: select the secret."))}>Copy</button>}
				{own && made.secret && <button type="button" onClick={() => { key.set(made.secret!); done(); }}>Sign in with it in this tab</button>}
				<button type="button" class="main" onClick={done}>{made.secret ? "I have kept it" : "Done"}</button>
				<span role="status">{copied}</span>
			</div>
		</section>
	);
}

/** expiresDefault is the life of a new key, if the one that makes it does not end before. */
const expiresDefault = "90d";

/** NewKey makes a key. open is true for the first one; own is the key of the user, if it has one. */
export function NewKey({ open, own, made, busy }: { open: boolean; own: CallerKey | undefined; made: (k: CallerKey) => void; busy: boolean }) {
	const ends = own?.expires ? Date.parse(own.expires) : Infinity;
	const [f, setF] = useState({ name: open ? "admin" : "", owner: "", stores: open ? "*" : "", doors: "", expires: open ? "never" : ends < Date.parse(expiry(expiresDefault)!) ? own!.expires! : expiresDefault, kind: "secret", issuer: "", claim: "groups", value: "", certificate: "", requests: "", processor: "" });
	const [chosen, setChosen] = useState<Right[]>([open ? "admin" : "read"]);
	const [error, setError] = useState<Failure>(), [later, setLater] = useState(false), [working, setWorking] = useState(false), [asking, setAsking] = useState(false);
	const set = (member: keyof typeof f) => (text: string) => { setAsking(false); setF((now) => ({ ...now, [member]: text })); };
	// What the user may overlook about the first key: afterwards, no other one lets a caller in.
	const risks = open ? [
		...(administers({ rights: chosen, stores: words(f.stores), doors: words(f.doors) }) ? [] : ["It does not administer all stores: afterwards, no key can make, change or revoke keys."]),
		...(f.kind === "token" ? ["It has no secret: only callers with a token of the provider are accepted, if the server was started with --auth-oidc-issuer."] : []),
		...(f.kind === "certificate" ? ["It has no secret: only callers with a client certificate are accepted, if the server was started with --tls-client-ca."] : []),
		...(f.expires.trim() === "never" ? [] : [`It ends (${f.expires.trim()}): afterwards, no request is accepted, unless another key was made that ends later. It cannot make one.`]),
	] : [];
	async function make(sure: boolean) {
		setError(undefined);
		setLater(false);
		setAsking(false);
		setWorking(true);
		let expires: string | undefined;
		try {
			expires = expiry(f.expires.trim());
			const limits = limitsOf(f.requests, f.processor);
			if (risks.length > 0 && !sure) {
				setAsking(true);
				setWorking(false);
				return;
			}
			made(await api.createKey({
				name: f.name, stores: words(f.stores), rights: chosen, ...(f.owner && { owner: f.owner }), ...(words(f.doors).length > 0 && { doors: words(f.doors) }), ...(expires && { expires }),
				...(f.kind === "token" && { match: { issuer: f.issuer, claim: f.claim, value: f.value } }), ...(f.kind === "certificate" && { match_certificate: f.certificate }), ...(Object.keys(limits).length > 0 && { limits }),
			}));
			setF({ ...f, name: "" });
		} catch (e) {
			setError(e as Failure);
			setLater((e as Failure).code === "forbidden" && (expires ? Date.parse(expires) : Infinity) > ends);
		}
		setWorking(false);
	}
	return (
		<>
			<h2>Make a key</h2>
			{own?.expires && <p class="soft">Your key <Name text={own.name} /> ends {when(own.expires)}: a key that it makes ends then, or before.</p>}
			<form class="fields edit" onSubmit={(e) => { e.preventDefault(); make(false); }}>
				<Input label="Name of the new key" value={f.name} set={set("name")} />
				<Input label="Stores" value={f.stores} set={set("stores")} placeholder="team-* acme" />
				<fieldset class="field"><legend>Rights</legend>{rights.map((r) => <label key={r}><input type="checkbox" checked={chosen.includes(r)} onChange={(e) => { const on = e.currentTarget.checked; setAsking(false); setChosen(rights.filter((x) => (x === r ? on : chosen.includes(x)))); }} /> {r}</label>)}</fieldset>
				<Input label="Doors, or all" value={f.doors} set={set("doors")} placeholder="native openfga" />
				<Input label="Expires" value={f.expires} set={set("expires")} placeholder="90d, a time, or never" />
				<Input label="Owner" value={f.owner} set={set("owner")} placeholder="whom to ask about the key" />
				<Input label="Requests a second" value={f.requests} set={set("requests")} placeholder="no limit" />
				<Input label="Processor ms a second" value={f.processor} set={set("processor")} placeholder="no limit" />
				<label class="field"><span>For callers with</span><select value={f.kind} onChange={(e) => set("kind")(e.currentTarget.value)}><option value="secret">a secret</option><option value="token">a token of a provider</option><option value="certificate">a client certificate</option></select></label>
				{f.kind === "token" && <><Input label="Issuer" value={f.issuer} set={set("issuer")} placeholder="https://login.example.com" /><Input label="Claim" value={f.claim} set={set("claim")} /><Input label="Value of the claim" value={f.value} set={set("value")} /></>}
				{f.kind === "certificate" && <Input label="Name in the certificate" value={f.certificate} set={set("certificate")} placeholder="dns:web.example.com" />}
				<button type="submit" class="main" disabled={working || busy || f.name === ""}>Make the key</button>
			</form>
			{asking && (
				<section class="verdict unknown" role="alert" aria-label="Before the first key is made">
					<strong>This is the first key, and it can shut you out</strong>
					{risks.map((r) => <p key={r}>{visible(r)}</p>)}
					<p>How to get in again then: <FirstKey /></p>
					<div class="tabs"><button type="button" class="editing" onClick={() => make(true)}>Make it all the same</button><button type="button" class="main" onClick={() => setAsking(false)}>Change it</button></div>
				</section>
			)}
			<Trouble error={error} />
			{later && own?.expires && <p role="alert">The expiry is later than that of your key <Name text={own.name} />: expected {own.expires}, or before.</p>}
		</>
	);
}

/**
 * OneKey shows a key with its limits, explains what it may do, and in edit mode changes it. last is
 * true for the only key that administers all stores.
 */
export function OneKey({ k, last, route, locked, made, changed }: { k: CallerKey; last: boolean; route: Route; locked: string; made: (k: CallerKey) => void; changed: (what: string) => void }) {
	const store = route.params.get("store") ?? "", right = route.params.get("right") ?? "", door = route.params.get("door") ?? "";
	const asked = store !== "" || door !== "";
	const why = useLoaded(async (s) => (asked ? api.explainKey(k.name, { ...(store && { store, right: (right || "read") as Right }), ...(door && { door }) }, s) : undefined), [k.id, store, right, door]);
	const [keep, setKeep] = useState("1h"), [sure, setSure] = useState(false), [known, setKnown] = useState(false), [error, setError] = useState<Failure>();
	const [requests, setRequests] = useState(String(k.limits?.requests?.per_second ?? "")), [processor, setProcessor] = useState(String(k.limits?.processor_ms?.per_second ?? ""));
	const attempt = async (work: () => Promise<void>) => {
		setError(undefined);
		try { await work(); } catch (e) { setError(e as Failure); }
	};
	const limit = (l: typeof k.limits, member: "requests" | "processor_ms", unit: string) => (l?.[member] ? `${l[member].per_second.toLocaleString("en")} ${unit} a second${l[member].burst ? `, at once ${l[member].burst.toLocaleString("en")}` : ""}` : "");
	const bounds = [limit(k.limits, "requests", "requests"), limit(k.limits, "processor_ms", "ms of processor time")].filter((t) => t !== "").join("; ");
	return (
		<section aria-label="The key">
			<h2><Name text={k.name} /></h2>
			<p>{k.rights.join(", ")} on {k.stores.map((t, i) => <span key={t}>{i > 0 && ", "}<Name text={t} /></span>)}, through {k.doors.length === 0 || k.doors.includes("*") ? "all doors" : k.doors.join(", ")}, {k.expires ? `${k.expired ? "expired" : "until"} ${when(k.expires)}` : "without an end"}. Limits: {bounds || "none"}. Id <code>{k.id}</code>.</p>
			<h3>May it?</h3>
			<ViewForm route={route} page="keys" keep={{ key: k.name, filter: route.params.get("filter") ?? "" }} button="Explain">
				<Field name="store" label="Store" value={store} />
				<Field name="right" label="Right" value={right} placeholder="read" list="rights" />
				<Field name="door" label="Door" value={door} placeholder="any" />
				<datalist id="rights">{rights.map((r) => <option key={r} value={r} />)}</datalist>
			</ViewForm>
			<Trouble error={why.error} />
			{why.value && (
				<div class={`verdict ${why.value.allowed}`} role="status">
					<strong>{why.value.allowed ? "Allowed" : "Denied"}</strong>
					{why.value.answers.map((a, i) => <pre key={i} class="name">{visible(a.text ?? "").replaceAll("⟨U+000A⟩", "\n")}</pre>)}
				</div>
			)}
			{!locked && (
				<>
					<form class="fields edit" onSubmit={(e) => { e.preventDefault(); attempt(async () => { await api.limitKey(k.name, limitsOf(requests, processor)); changed(`the limits of ${k.name} are set`); }); }}>
						<Input label="Limit: requests a second" value={requests} set={setRequests} placeholder="no limit" />
						<Input label="Limit: processor ms a second" value={processor} set={setProcessor} placeholder="no limit" />
						<button type="submit">Set the limits</button>
					</form>
					{!k.match && !k.match_certificate && (
						<form class="fields edit" onSubmit={(e) => { e.preventDefault(); attempt(async () => {
							const end = keep.trim() === "0" ? 0 : (Date.parse(expiry(keep.trim()) ?? "") - Date.now()) / 1000;
							if (!(end >= 0)) throw new Failure(0, "", `invalid time "${keep}": expected a duration (1h, 7d), or 0`);
							made(await api.rotateKey(k.name, Math.max(0, Math.round(end))));
						}); }}>
							<Input label="How long the old secret is still accepted" value={keep} set={setKeep} placeholder="1h, or 0" />
							<button type="submit">Make a new secret</button>
						</form>
					)}
					{sure && last && (
						<div class="verdict false" role="alert">
							<strong>This is the last key with admin on all stores</strong>
							<p>Without it, no key can make, change or revoke keys, or administer all stores. Only a key of <code>--auth-keys-file</code> still can, if the server has one. How to get in again: <FirstKey /></p>
							<label><input type="checkbox" checked={known} onChange={(e) => setKnown(e.currentTarget.checked)} /> I can run commands on the data folder of the server</label>
						</div>
					)}
					<p>
						{sure
							? <><button type="button" class="editing" disabled={last && !known} onClick={() => attempt(async () => { await api.revokeKey(k.name); go(link("", "keys", { filter: route.params.get("filter") ?? "" })); changed(`revoked ${k.name}: it is refused from now on, and its streams end`); })}>Revoke {visible(k.name)} for ever</button> <button type="button" onClick={() => { setSure(false); setKnown(false); }}>Keep it</button></>
							: <button type="button" onClick={() => setSure(true)}>Revoke…</button>}
					</p>
					<Trouble error={error} />
				</>
			)}
		</section>
	);
}
