// The stores that the key may read.
import { useState } from "preact/hooks";
import { api } from "../api";
import { Trouble, useLoaded, Waiting } from "../load";
import { Name } from "../names";
import { go, link, type Route } from "../route";
import { when } from "../text";

export function Stores({ route }: { route: Route }) {
	const after = route.params.get("after") ?? "";
	const stores = useLoaded((s) => api.stores(after, s), [after]);
	const [other, setOther] = useState("");
	return (
		<>
			<h1>Stores</h1>
			<Waiting of={stores} />
			<Trouble error={stores.error} />
			{stores.value?.stores.length === 0 && (
				<p>There is no store yet. On the machine of the server: <code>ostiary store create NAME</code>, then <code>ostiary schema write FILE</code> and <code>ostiary tuple write USER RELATION OBJECT</code>.</p>
			)}
			{stores.value && stores.value.stores.length > 0 && (
				<div class="scroll" tabIndex={0} role="region" aria-label="Stores">
					<table>
						<thead><tr><th scope="col">Name</th><th scope="col">Id</th><th scope="col">Aliases</th><th scope="col">Created</th></tr></thead>
						<tbody>
							{stores.value.stores.map((s) => (
								<tr key={s.id}>
									<td><a href={link(s.id, "ask")}><Name text={s.name || s.id} /></a></td>
									<td><code>{s.id}</code></td>
									<td>{Object.entries(s.aliases).map(([door, alias]) => <div key={door}>{door}: <Name text={alias} /></div>)}</td>
									<td>{when(s.created)}</td>
								</tr>
							))}
						</tbody>
					</table>
				</div>
			)}
			{stores.value?.next && <p><a href={link("", "stores", { after: stores.value.next })}>Next page</a></p>}
			<form class="fields" onSubmit={(e) => { e.preventDefault(); if (other.trim()) go(link(other.trim(), "ask")); }}>
				<label class="field"><span>Id or alias of a store</span><input value={other} onInput={(e) => setOther(e.currentTarget.value)} autocomplete="off" spellcheck={false} /></label>
				<button type="submit">Open</button>
			</form>
		</>
	);
}
