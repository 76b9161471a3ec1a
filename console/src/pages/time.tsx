// The log of a store around a revision, and who gained or lost a permission between two.
import { api, Failure, learned, type Differences, type Entry } from "../api";
import { Field, ViewForm } from "../fields";
import { Trouble, useLoaded, Waiting } from "../load";
import { Name, visible } from "../names";
import { link, type Route } from "../route";
import { useSession } from "../session";
import { tokenOf } from "../tokens";
import { split, textOf, when } from "../text";

/** around is the number of entries that the page shows. */
const around = 50;

export function Time({ route }: { route: Route }) {
	const { head, version } = useSession();
	const revision = route.params.get("at") ?? "";
	const center = revision === "" ? head : Number(revision);
	const before = Math.max(0, Math.min(center - around / 2, head - around));
	const log = useLoaded(async (s) => api.ask(route.store, "changes", { limit: around, ...(before > 0 && { after: await tokenOf(route.store, before, s) }) }, "", s), [route.store, before], version);
	return (
		<>
			<h1>Time</h1>
			<p class="soft">The slider at the top shows every page of the store as of a revision. Newest first:</p>
			<Waiting of={log} />
			<Trouble error={log.error} />
			{log.error?.code === "too_old" && <p>The server keeps the past for the time of the setting <code>--window</code>.</p>}
			{log.value?.entries.length === 0 && <p>The log has no entry yet.</p>}
			{log.value && log.value.entries.length > 0 && (
				<ol class="log">
					{[...log.value.entries].reverse().map((e) => <LogEntry key={e.revision} entry={e} store={route.store} current={e.revision === center} />)}
				</ol>
			)}
			<p>
				{before > 0 && <a href={link(route.store, "time", { at: String(Math.max(1, before - around / 2 + 1)) })}>Earlier</a>}{" "}
				{log.value?.more && <a href={link(route.store, "time", { at: String(Math.min(head, before + around + around / 2)) })}>Later</a>}
			</p>
			<Difference route={route} />
		</>
	);
}

/** changesMax bounds the changes of one entry that the page shows. */
const changesMax = 20;

/** LogEntry shows an entry of the log with its changes. */
export function LogEntry({ entry, store, current }: { entry: Entry; store: string; current: boolean }) {
	return (
		<li class={current ? "current" : ""}>
			<div><a href={link(store, "time", { at: String(entry.revision) })} aria-current={current ? "true" : undefined}>Revision {entry.revision}</a> <span class="soft">{when(entry.time)}</span>{entry.caller && <> by <Name text={entry.caller} /></>}{entry.reason && <>: <q><Name text={entry.reason} /></q></>}</div>
			<ul>
				{entry.changes.slice(0, changesMax).map((c, i) => (
					<li key={i}>
						{c.tuple ? <><span class={c.op === "add" ? "true" : "false"}>{c.op === "add" ? "+" : "−"}</span> <a href={link(store, "tuples", { object: c.tuple.object, relation: c.tuple.relation, subject: c.tuple.subject, at: String(entry.revision) })}><Name text={textOf(c.tuple)} /></a>{c.tuple.condition && <> with <Name text={c.tuple.condition} /></>}</>
							: c.document ? <>{c.op.replace("_", " ")} <Name text={`${c.document.kind} ${c.document.key}`} /></>
							: <>{c.op.replaceAll("_", " ")} <code>{visible(JSON.stringify(c.attribute ?? c.tuples ?? c.attributes ?? {}))}</code></>}
					</li>
				))}
				{entry.changes.length > changesMax && <li class="soft">and {entry.changes.length - changesMax} further changes</li>}
			</ul>
		</li>
	);
}

const words = { true: "allowed", false: "denied", unknown: "undecided" } as const;

/** Gain shows that a subject gained or lost a permission, with a link to why. */
export function Gain({ change: c, relation, store, at }: { change: Differences["changes"][number]; relation: string; store: string; at: string }) {
	return (
		<li>
			<span class={c.after}>{c.after === "true" ? "+ gained" : c.before === "true" ? "− lost" : `${words[c.before]} → ${words[c.after]}`}</span>{" "}
			<a href={link(store, "ask", { kind: "check", subject: c.subject, relation, object: c.object, at })}><Name text={`${c.subject} ${relation} ${c.object}`} /></a>{c.everybody && " and everybody else"}
		</li>
	);
}

/** bounds returns what is wrong with the revisions of a comparison. */
function bounds({ from, to }: Record<string, string>): Record<string, string> {
	return Object.fromEntries(Object.entries({ from, to }).filter(([, text]) => text && !/^\d{1,15}$/.test(text)).map(([name]) => [name, "Expected the number of a revision"]));
}

function Difference({ route }: { route: Route }) {
	const text = (name: string) => route.params.get(name) ?? "";
	const { head } = useSession();
	const [object, relation, subject, from] = [text("object"), text("relation"), text("subject"), text("from")];
	const to = text("to") || String(head);
	const ready = object && relation && subject && Object.keys(bounds({ from, to })).length === 0 && from !== "";
	return (
		<>
			<h2>Who gained, who lost</h2>
			<ViewForm route={route} page="time" keep={{}} button="Compare" wrong={bounds}>
				<Field name="subject" label="Type of subjects" value={subject} placeholder="user" required />
				<Field name="relation" label="Relation" value={relation} placeholder="can_view" required />
				<Field name="object" label="Type of objects" value={object} placeholder="document" required />
				<Field name="from" label="From revision" value={from} placeholder="1" required />
				<Field name="to" label="To revision (empty: the newest)" value={text("to")} placeholder={String(head)} />
			</ViewForm>
			{ready && <Changes store={route.store} object={object} relation={relation} subject={subject} from={from} to={to} />}
		</>
	);
}

function Changes({ store, object, relation, subject, from, to }: { store: string; object: string; relation: string; subject: string; from: string; to: string }) {
	const { head } = useSession(), last = Math.max(Number(from), Number(to));
	const found = useLoaded(async (s) => {
		if (last > head) { // the API would wait for that revision
			const { revision = 0 } = await api.store(store, s);
			learned(store, revision);
			if (last > revision) throw new Failure(0, "", `There is no revision ${last} yet: the newest one is ${revision}.`);
		}
		return api.ask(store, "difference", { object_type: split(object).type, relation, subject_type: split(subject).type, from: { revision: Number(from) }, to: { revision: Number(to) }, limit: 100 }, "", s);
	}, [store, object, relation, subject, from, to]);
	const x = found.value;
	return (
		<section aria-label="Difference">
			<Waiting of={found} /><Trouble error={found.error} />
			{x && x.changes.length === 0 && <p role="status">Nobody gained or lost it between revision {from} and {to}.</p>}
			<ul class="found">
				{x?.changes.map((c) => <Gain key={`${c.object} ${c.subject}`} change={c} relation={relation} store={store} at={to} />)}
			</ul>
			{x?.next && <p class="soft">There are more: <code>ostiary diff {visible(subject)} {visible(relation)} {visible(object)} --from {from} --to {to}</code></p>}
		</section>
	);
}
