// The stores that the key may read, and in edit mode new ones.
import { useState } from "preact/hooks";
import { api, Failure, type Store } from "../api";
import { makeDemo } from "../demo";
import { Trouble, useLoaded, Waiting } from "../load";
import { Name } from "../names";
import { go, link, type Route } from "../route";
import { useSession } from "../session";
import { when } from "../text";

const demoName = "demo";

export function Stores({ route }: { route: Route }) {
	const session = useSession();
	const after = route.params.get("after") ?? "";
	const stores = useLoaded((s) => api.stores(after, s), [after], session.version);
	const [other, setOther] = useState("");
	const list = stores.value?.stores;
	return (
		<>
			<h1>Stores</h1>
			<Waiting of={stores} />
			<Trouble error={stores.error} />
			{list?.length === 0 && <p>{after ? "No further store." : "There is no store here that you may read. A store has a model, which defines types and relations, and tuples, which say who has which relation to what."}</p>}
			{list && list.length > 0 && (
				<div class="scroll" tabIndex={0} role="region" aria-label="Stores">
					<table>
						<thead><tr><th scope="col">Name</th><th scope="col">Tuples</th><th scope="col">Head</th><th scope="col">In memory</th><th scope="col">Your rights</th><th scope="col">Doors</th><th scope="col">Created</th><th scope="col">Id</th></tr></thead>
						<tbody>{list.map((s) => <Row key={s.id} s={s} />)}</tbody>
					</table>
				</div>
			)}
			{stores.value?.next && <p><a href={link("", "stores", { after: stores.value.next })}>Next page</a></p>}
			<form class="fields" onSubmit={(e) => { e.preventDefault(); if (other.trim()) go(link(other.trim(), "ask")); }}>
				<label class="field"><span>Id or alias of a store</span><input value={other} onInput={(e) => setOther(e.currentTarget.value)} autocomplete="off" spellcheck={false} /></label>
				<button type="submit">Open</button>
			</form>
			{list && <New empty={list.length === 0 && !after} />}
		</>
	);
}

/** Row shows a store. What is only known of one in memory is a dash for others. */
function Row({ s }: { s: Store }) {
	const cold = <span class="soft" aria-label="not known: the store is not in memory">–</span>;
	return (
		<tr>
			<td><a href={link(s.id, "ask")}><Name text={s.name || s.id} /></a></td>
			<td>{s.tuples?.toLocaleString("en") ?? cold}{!!s.attributes && <div class="soft">{s.attributes.toLocaleString("en")} attributes</div>}</td>
			<td>{s.head === undefined ? cold : <>{s.head}{s.changed && <div class="soft time">{when(s.changed)}</div>}</>}</td>
			<td>{s.loaded ? <>loaded<div class="soft time">{size(s.bytes ?? 0)}</div></> : "cold"}</td>
			<td>{s.rights?.join(", ")}</td>
			<td>{Object.entries(s.aliases).map(([door, alias]) => <div key={door}><Name text={door} />: <Name text={alias} /></div>)}</td>
			<td class="time">{when(s.created)}</td>
			<td><code>{s.id}</code></td>
		</tr>
	);
}

function size(bytes: number): string {
	return bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} kB` : bytes < 1e9 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e9).toFixed(2)} GB`;
}

/** New makes a store: an empty one, or one with the content of the demo. */
function New({ empty }: { empty: boolean }) {
	const session = useSession();
	const [name, setName] = useState(""), [step, setStep] = useState(""), [error, setError] = useState<Failure>();
	const may = useLoaded((s) => api.me(name.trim() || demoName, s), [name.trim()]);
	const refused = may.value && !may.value.rights.includes("admin");
	if (!session.editing) return <p class="soft">{empty ? "Switch to edit at the top of the page to make a store, or one with the content of the demo." : "Read-only: switch to edit at the top of the page to make a store."}</p>;
	async function make(work: () => Promise<string>) {
		setError(undefined);
		try {
			go(await work());
			session.changed();
		} catch (e) {
			setError(e as Failure);
			session.changed();
		}
		setStep("");
	}
	return (
		<>
			<form class="fields edit" onSubmit={(e) => { e.preventDefault(); if (name.trim()) make(async () => link((await api.create(name.trim())).id, "model")); }}>
				<label class="field"><span>Name of a new store</span><input value={name} onInput={(e) => setName(e.currentTarget.value)} maxLength={512} autocomplete="off" spellcheck={false} /></label>
				<button type="submit" disabled={!may.value || refused || step !== "" || name.trim() === ""}>Create an empty store</button>
				<button type="button" class="main" disabled={!may.value || refused || step !== ""} onClick={() => make(async () => link(await makeDemo(name.trim() || demoName, setStep), "ask", { kind: "check", subject: "user:anne", relation: "can_view", object: "document:budget" }))}>Create a store with the demo</button>
			</form>
			{refused && <p class="soft" role="status">The key may not create a store called <Name text={name.trim() || demoName} />: it has no right admin on stores of this name.</p>}
			{step && <p role="status">{step}…</p>}
			<Trouble error={error ?? may.error} />
		</>
	);
}
