// The tuples of a store, by filters and in pages. In edit mode, tuples are written and removed,
// each with a reason, and each write can be undone by another one.
import { useEffect, useState } from "preact/hooks";
import { api, at, Failure, type Tuple } from "../api";
import { Field, ViewForm } from "../fields";
import { Trouble, useLoaded, Waiting } from "../load";
import { Name, visible } from "../names";
import type { Route } from "../route";
import { useSession } from "../session";
import { filterOf, parameters, textOf, when, written } from "../text";

/** pageSize is the number of tuples that one request reads. */
const pageSize = 100;

interface Done {
	text: string;
	undo?: { add?: Tuple[]; remove?: Tuple[] };
}

export function Tuples({ route }: { route: Route }) {
	const session = useSession();
	const [object, relation, subject, revision] = ["object", "relation", "subject", "at"].map((n) => route.params.get(n) ?? "") as [string, string, string, string];
	const filter = filterOf(object, relation, subject);
	const first = useLoaded((s) => api.ask(route.store, "read", { filter, limit: pageSize, ...at(revision) }, "", s), [route.store, object, relation, subject, revision], session.version);
	const [more, setMore] = useState<{ tuples: Tuple[]; next: string }>();
	const [error, setError] = useState<Failure>();
	const [done, setDone] = useState<Done>();
	const [reason, setReason] = useState("");
	useEffect(() => { setMore(undefined); setError(undefined); }, [first.value]);
	const tuples = [...(first.value?.tuples ?? []), ...(more?.tuples ?? [])];
	const next = more ? more.next : first.value?.next ?? "";
	const editable = session.editing && revision === "";

	async function nextPage() {
		try {
			const page = await api.ask(route.store, "read", { filter, limit: pageSize, cursor: next, ...at(revision) });
			setMore({ tuples: [...(more?.tuples ?? []), ...page.tuples], next: page.next });
		} catch (e) {
			setError(e as Failure);
		}
	}

	async function write(change: { add?: Tuple[]; remove?: Tuple[] }, undo: Done["undo"] | undefined, text: string): Promise<boolean> {
		setError(undefined);
		setDone(undefined);
		try {
			const keys = change.remove?.map(({ object, relation, subject }) => ({ object, relation, subject }));
			const result = await api.ask(route.store, "write", JSON.parse(JSON.stringify({ add: change.add, remove: keys })), reason.trim());
			setDone({ text: `${text}, revision ${result.revision}`, ...(undo ? { undo } : {}) });
			session.changed();
			return true;
		} catch (e) {
			setError(e as Failure);
			return false;
		}
	}

	return (
		<>
			<h1>Tuples</h1>
			<ViewForm route={route} page="tuples" keep={{}} button="Filter">
				<Field name="object" label="Object" value={object} placeholder="document or document:budget" />
				<Field name="relation" label="Relation" value={relation} placeholder="viewer" />
				<Field name="subject" label="Subject" value={subject} placeholder="user:anne or team:eng#member" />
			</ViewForm>
			{editable && <Add reason={reason} setReason={setReason} write={(t) => write({ add: [t] }, { remove: [t] }, `wrote ${textOf(t)}`)} fail={(m) => setError(new Failure(0, "", m))} />}
			{!editable && <p class="soft">{revision !== "" ? "The past cannot be edited." : "Read-only: switch to edit at the top of the page."}</p>}
			{done && (
				<p class="ok" role="status">
					{visible(done.text)}. {done.undo && editable && <button type="button" onClick={() => write(done.undo!, undefined, "undone")}>Undo</button>}
				</p>
			)}
			<Trouble error={error ?? first.error} />
			<Waiting of={first} />
			{first.value && tuples.length === 0 && <p>No tuple matches{object || relation || subject ? " the filter" : ": the store has none"}.</p>}
			{tuples.length > 0 && (
				<div class="scroll" tabIndex={0} role="region" aria-label="Tuples">
					<table class="tuples">
						<thead><tr><th scope="col">Object</th><th scope="col">Relation</th><th scope="col">Subject</th><th scope="col">Condition, expiry</th><th scope="col">Written</th>{editable && <th scope="col">Edit</th>}</tr></thead>
						<tbody>
							{tuples.map((t) => (
								<tr key={textOf(t)}>
									<td><Name text={t.object} /></td>
									<td><Name text={t.relation} /></td>
									<td><Name text={t.subject} /></td>
									<td>{t.condition && <><Name text={t.condition} /> {t.context && <code>{visible(JSON.stringify(t.context))}</code>}</>} {t.expires && <>until {when(t.expires)}</>}</td>
									<td class="time">{when(t.created)}</td>
									{editable && <td><button type="button" aria-label={`Remove ${visible(textOf(t))}`} onClick={() => write({ remove: [t] }, { add: [written(t)] }, `removed ${textOf(t)}`)}>Remove</button></td>}
								</tr>
							))}
						</tbody>
					</table>
				</div>
			)}
			{first.value && <p class="soft" role="status">{tuples.length} tuples{next ? " so far" : ""}, revision {first.value.revision}. {next && <button type="button" onClick={nextPage}>Next {pageSize}</button>}</p>}
		</>
	);
}

interface AddProps {
	reason: string;
	setReason: (text: string) => void;
	write: (t: Tuple) => Promise<boolean>;
	fail: (message: string) => void;
}

/** Add is the form that writes a tuple. What it has stays until the write has worked. */
function Add({ reason, setReason, write, fail }: AddProps) {
	async function submit(e: Event) {
		e.preventDefault();
		const form = e.currentTarget as HTMLFormElement, text = (name: string) => String(new FormData(form).get(name) ?? "").trim();
		try {
			const context = parameters(text("context"));
			const tuple = { object: text("new-object"), relation: text("new-relation"), subject: text("new-subject"), condition: text("condition") || undefined, context, expires: text("expires") || undefined };
			if (await write(JSON.parse(JSON.stringify(tuple)))) form.reset();
		} catch (failure) {
			fail((failure as Error).message);
		}
	}
	return (
		<form class="fields edit" onSubmit={submit}>
			<Field name="new-subject" label="New subject" value="" placeholder="user:anne" />
			<Field name="new-relation" label="New relation" value="" placeholder="viewer" />
			<Field name="new-object" label="New object" value="" placeholder="document:budget" />
			<Field name="condition" label="Condition, if any" value="" />
			<Field name="context" label="Its parameters, as JSON" value="" placeholder='{"opens": 9}' />
			<Field name="expires" label="Expires, if ever" value="" placeholder="2027-01-01T00:00:00Z" />
			<label class="field"><span>Reason, for the log</span><input value={reason} onInput={(e) => setReason(e.currentTarget.value)} maxLength={512} autocomplete="off" /></label>
			<button type="submit" class="main">Write</button>
		</form>
	);
}
