// The keys of callers that the key may see. In edit mode it makes, changes and revokes them.
import { useState } from "preact/hooks";
import { api, type CallerKey, type Failure } from "../api";
import { Field, ViewForm } from "../fields";
import { Trouble, useLoaded, Waiting } from "../load";
import { Name, visible } from "../names";
import { link, type Route } from "../route";
import { useSession } from "../session";
import { when } from "../text";
import { administers, NewKey, OneKey, Secret } from "./key";

export function Keys({ route }: { route: Route }) {
	const session = useSession();
	const keys = useLoaded((s) => api.keys(s), [], session.version);
	const me = useLoaded((s) => api.me("", s), [], session.version);
	const [made, setMade] = useState<CallerKey>(), [done, setDone] = useState("");
	const text = route.params.get("filter") ?? "", chosen = route.params.get("key");
	const all = keys.value?.keys ?? [];
	const shown = all.filter((k) => text === "" || [k.name, k.owner, ...k.stores].some((t) => t.toLowerCase().includes(text.toLowerCase())));
	// Without a key, the first one is made by everybody, and ends that.
	const open = me.value?.method === "" && all.length === 0;
	const locked = !keys.value || !me.value ? "" : !me.value.administers && !all.some((k) => k.rights.includes("admin"))
		? "Read-only: the key administers no store, so it can neither make nor revoke keys." : session.editing ? "" : "Read-only: switch to edit at the top of the page to make or revoke keys.";
	const own = me.value?.method === "key" ? all.find((k) => k.name === me.value?.caller) : undefined;
	const changed = (what: string) => { setDone(what); session.changed(); };
	const one = all.find((k) => k.name === chosen);
	return (
		<>
			<h1>Keys</h1>
			<Waiting of={keys} />
			<Trouble error={keys.error ?? me.error as Failure | undefined} />
			{keys.value && all.length === 0 && !made && <p>{open ? "There is no key yet: every request is accepted, with all rights. The first key ends that, on all nodes, and then every caller needs one. Make one that administers all stores first." : "There is no key that you may see."} A key has rights on stores, through doors, until it expires.</p>}
			{made && <Secret made={made} own={open || made.id === own?.id} first={open} done={() => { setMade(undefined); changed(""); }} />}
			{done && <p class="ok" role="status">{visible(done)}</p>}
			{chosen !== null && keys.value && (one
				? <OneKey key={one.id} k={one} last={!one.expired && administers(one) && !all.some((k) => k.id !== one.id && !k.expired && administers(k))} route={route} locked={locked} made={setMade} changed={changed} />
				: <p>There is no key called <Name text={chosen} /> that you may see.</p>)}
			{all.length > 0 && (
				<>
					{chosen !== null && <h2>All keys</h2>}
					<ViewForm route={route} page="keys" keep={{}} button="Filter"><Field name="filter" label="Name, owner or store" value={text} /></ViewForm>
					<p class="soft" role="status">{shown.length === all.length ? `${all.length} ${all.length === 1 ? "key" : "keys"} that you may see.` : `${shown.length} of ${all.length} keys.`}</p>
					<div class="scroll" tabIndex={0} role="region" aria-label="Keys">
						<table>
							<thead><tr><th scope="col">Name</th><th scope="col">Rights</th><th scope="col">Stores</th><th scope="col">Doors</th><th scope="col">Expires</th><th scope="col">For</th><th scope="col">Owner</th><th scope="col">Made by</th></tr></thead>
							<tbody>{shown.slice(0, 1000).map((k) => <Row key={k.id} k={k} own={k === own} filter={text} />)}</tbody>
						</table>
					</div>
					{shown.length > 1000 && <p class="soft">The first 1,000: filter for others.</p>}
				</>
			)}
			{locked ? <p class="soft">{locked}</p> : keys.value && me.value && !(open && made) && <NewKey key={`${open} ${own?.id}`} open={open} own={own} made={setMade} busy={made !== undefined} />}
		</>
	);
}

const everyDoor = (k: CallerKey) => k.doors.length === 0 || k.doors.includes("*");
const names = (all: readonly string[]) => all.map((t) => <div key={t}><Name text={t} /></div>);

function Row({ k, own, filter }: { k: CallerKey; own: boolean; filter: string }) {
	return (
		<tr>
			<td><a href={link("", "keys", { key: k.name, filter })}><Name text={k.name} /></a>{own && <div class="soft">this key</div>}</td>
			<td>{k.rights.join(", ")}</td>
			<td>{names(k.stores)}</td>
			<td>{everyDoor(k) ? "all" : names(k.doors)}</td>
			<td class="time">{k.expires ? <span class={k.expired ? "false" : ""}>{when(k.expires)}{k.expired && " (expired)"}</span> : "never"}</td>
			<td>{forWhom(k)}</td>
			<td><Name text={k.owner} /></td>
			<td><Name text={k.creator} /><div class="soft time">{when(k.created)}</div></td>
		</tr>
	);
}

/** forWhom returns who calls with a key. */
function forWhom(k: CallerKey) {
	if (k.match) return <>tokens of <Name text={k.match.issuer} /> with <Name text={`${k.match.claim} = ${k.match.value}`} /></>;
	if (k.match_certificate) return <>certificates with <Name text={k.match_certificate} /></>;
	return k.secrets === 1 ? "its secret" : `${k.secrets} secrets`;
}
