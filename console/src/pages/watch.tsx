// Permissions gained and lost, or the log, as it happens.
import { useEffect, useState } from "preact/hooks";
import { api, learned, type Differences, type Entry } from "../api";
import { Field, ViewForm } from "../fields";
import { Trouble } from "../load";
import { visible } from "../names";
import { link, type Route } from "../route";
import { useStream, type StreamState } from "../stream";
import { split, when } from "../text";
import { tokenOf } from "../tokens";
import { Gain, LogEntry } from "./time";

const kinds = { permission: "A permission", log: "The log" } as const;
type Kind = keyof typeof kinds;

const states: Record<StreamState, string> = {
	connecting: "Connecting…", watching: "Watching", waiting: "The connection is lost. Trying again…", paused: "Paused", hidden: "Paused: the tab is hidden", ended: "Ended",
};

/** Update is one event of a watched permission. */
interface Update {
	revision: number;
	time: string;
	changes: Differences["changes"];
	undecided: number;
}

export function Watch({ route }: { route: Route }) {
	const text = (name: string) => route.params.get(name) ?? "";
	const kind = (text("kind") in kinds ? text("kind") : "permission") as Kind;
	const [subjects, relation, objects, context, types] = [text("subjects"), text("relation"), text("objects"), text("context"), text("types")];
	const { path, wrong } = kind === "log" ? { path: `watch?${new URLSearchParams(types ? { types: types.split(/[\s,]+/).join(",") } : {})}`, wrong: "" } : permission(subjects, relation, objects, context);
	const fields = { subjects, relation, objects, context, types, at: text("at") };
	return (
		<>
			<h1>Watch</h1>
			<nav class="tabs" aria-label="What is watched">
				{(Object.keys(kinds) as Kind[]).map((k) => <a key={k} href={link(route.store, "watch", { ...fields, kind: k })} aria-current={k === kind ? "page" : undefined}>{kinds[k]}</a>)}
			</nav>
			<ViewForm key={kind} route={route} page="watch" keep={{ kind }} button="Watch" wrong={kind === "permission" ? unnamed : () => ({})}>
				{kind === "permission" && <>
					<Field name="subjects" label="Subjects, or only their type" value={subjects} placeholder="user:anne user:bob" required />
					<Field name="relation" label="Relation" value={relation} placeholder="can_view" required />
					<Field name="objects" label="Objects, or only their type" value={objects} placeholder="document:budget" required />
					<Field name="context" label="Parameters of conditions, as JSON" value={context} placeholder='{"ip": "10.0.0.1"}' />
				</>}
				{kind === "log" && <Field name="types" label="Only changes of objects of these types" value={types} placeholder="All types" />}
			</ViewForm>
			{wrong && <p class="trouble" role="alert">{wrong}</p>}
			{path ? <Live key={`${kind} ${path} ${text("at")}`} route={route} kind={kind} path={path} relation={relation} />
				: !wrong && <p class="soft">For example: which <code>user</code> gains or loses <code>can_view</code> on <code>document:budget</code>? Name objects, subjects or both: if you name only objects, write the type of the subjects beside them, and the other way round. Each gain and loss appears as it happens, also those that follow from a group, a folder, the model or an expiry.</p>}
		</>
	);
}

/** unnamed marks a watch of all subjects and all objects of two types, which there is none of. */
function unnamed({ subjects, objects }: Record<string, string>): Record<string, string> {
	return subjects && objects && !`${subjects} ${objects}`.includes(":") ? { objects: "Name at least one object or one subject, for example document:budget; only one of both fields may be a type" } : {};
}

/** permission returns the path of a watch, or what is wrong with the fields; both are "" if they are empty. */
function permission(subjects: string, relation: string, objects: string, context: string): { path: string; wrong: string } {
	if (!subjects || !relation || !objects) return { path: "", wrong: "" };
	const { objects: missing } = unnamed({ subjects, objects });
	if (missing) return { path: "", wrong: missing };
	const query = new URLSearchParams({ relation });
	for (const [what, list] of [["object", objects], ["subject", subjects]] as const) {
		const names = list.split(/\s+/).filter((n) => n !== "").map(split);
		const first = names[0]!;
		if (names.some((n) => n.type !== first.type || n.relation !== first.relation)) return { path: "", wrong: `invalid ${what}s: expected names of one type` };
		query.set(`${what}_type`, first.type);
		if (first.relation) query.set("subject_relation", first.relation);
		for (const n of names) if (n.id) query.append(what, n.id);
	}
	if (context) query.set("context", context);
	return { path: `watch-permission?${query}`, wrong: "" };
}

function Live({ route, kind, path, relation }: { route: Route; kind: Kind; path: string; relation: string }) {
	const { store } = route, revision = route.params.get("at") ?? "";
	const [paused, setPaused] = useState(false);
	const begin = async (s: AbortSignal) => (revision === "" ? (await api.store(store, s)).token ?? "" : tokenOf(store, Number(revision), s));
	const watched = useStream<Update | Entry>(`stores/${encodeURIComponent(store)}/${path}`, begin, paused);
	const { list, state } = watched, newest = list[0]?.revision;
	useEffect(() => learned(store, newest), [store, newest]);
	const changes = kind === "permission" ? (list as Update[]).flatMap((u) => u.changes) : [];
	const gained = changes.filter((c) => c.after === "true").length, lost = changes.filter((c) => c.before === "true").length;
	return (
		<section aria-label="What happens">
			<div class="live">
				<p role="status" class={`state ${state}`}><strong>{states[state]}</strong>{revision !== "" && ` from revision ${revision} on`}{kind === "permission" ? `: ${gained} gained, ${lost} lost.` : `: ${list.length} ${list.length === 1 ? "entry" : "entries"}.`}</p>
				{state !== "ended" && <button type="button" aria-pressed={paused} onClick={() => setPaused(!paused)}>{paused ? "Go on" : "Pause"}</button>}
			</div>
			<Trouble error={watched.error} />
			{watched.error?.code === "too_old" && <p>The past is kept for the time of the setting <code>--window</code>.</p>}
			{watched.gap && <p class="trouble">{visible(watched.gap)} The page Time has what is missing here.</p>}
			{list.length === 0 && state === "watching" && <p class="soft">Nothing has happened yet. Leave the page open, or write a tuple in another tab.</p>}
			<div role="log" aria-label={kind === "permission" ? "Permissions gained and lost" : "Entries of the log"}>{kind === "permission"
				? <ol class="log">{(list as Update[]).map((u, i) => <UpdateItem key={list.length - i} update={u} relation={relation} store={store} />)}</ol>
				: <ol class="log">{(list as Entry[]).map((e) => <LogEntry key={e.revision} entry={e} store={store} current={false} />)}</ol>}</div>
		</section>
	);
}

function UpdateItem({ update, relation, store }: { update: Update; relation: string; store: string }) {
	return (
		<li>
			<div><a href={link(store, "time", { at: String(update.revision) })}>Revision {update.revision}</a> <span class="soft">{when(update.time)}</span>{update.undecided > 0 && ` ${update.undecided} undecided`}</div>
			<ul>{update.changes.map((c) => <Gain key={`${c.object} ${c.subject}`} change={c} relation={relation} store={store} at={String(update.revision)} />)}</ul>
		</li>
	);
}
