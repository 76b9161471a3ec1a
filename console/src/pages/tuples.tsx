// The tuples of a store, by filters and in pages. In edit mode, tuples are written and removed,
// each with a reason, and each write can be undone by another one.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { api, at, Failure, type Tuple } from "../api";
import { Field, Form, ViewForm } from "../fields";
import { Trouble, useLoaded, Waiting } from "../load";
import { useLocked } from "../locked";
import { Name, visible } from "../names";
import type { Route } from "../route";
import { Rows } from "../rows";
import { useSession } from "../session";
import { Import } from "./import";
import { filterOf, parameters, textOf, when, written } from "../text";

/** pageSize is the number of tuples that one request reads. */
const pageSize = 500;

interface Done {
	text: string;
	revision: number;
	undo?: { add?: Tuple[]; remove?: Tuple[] };
}

/** moved are the API's codes for a tuple that another caller has written or removed meanwhile. */
const moved = ["tuple_exists", "tuple_missing"];

export function Tuples({ route }: { route: Route }) {
	const session = useSession();
	const [object, relation, subject, revision] = ["object", "relation", "subject", "at"].map((n) => route.params.get(n) ?? "") as [string, string, string, string];
	const filter = filterOf(object, relation, subject);
	const first = useLoaded((s) => api.ask(route.store, "read", { filter, limit: pageSize, ...at(revision) }, "", s), [route.store, object, relation, subject, revision], session.version);
	const [more, setMore] = useState<{ tuples: Tuple[]; next: string; of: unknown }>();
	const [error, setError] = useState<Failure>(), [conflict, setConflict] = useState("");
	const [done, setDone] = useState<Done>();
	const [reason, setReason] = useState("");
	const loading = useRef(false);
	const read = useRef(first.value);
	read.current = first.value;
	useEffect(() => { setMore(undefined); setError(undefined); }, [first.value]);
	const rest = more?.of === first.value ? more : undefined;
	const tuples = useMemo(() => [...(first.value?.tuples ?? []), ...(rest?.tuples ?? [])], [first.value, rest]);
	const next = rest ? rest.next : first.value?.next ?? "";
	const locked = useLocked("write", revision), editable = locked === "";

	async function nextPage() {
		const of = first.value;
		if (next === "" || loading.current || error) return;
		loading.current = true;
		try {
			const page = await api.ask(route.store, "read", { filter, limit: pageSize, cursor: next, ...at(revision) });
			if (read.current === of) setMore({ tuples: [...(rest?.tuples ?? []), ...page.tuples], next: page.next, of });
		} catch (e) {
			if (read.current === of) setError(e as Failure);
		}
		loading.current = false;
	}

	/** finish shows what was written. Its reason is not that of the next write. */
	function finish(text: string, revision: number, undo: Done["undo"] | undefined) {
		setDone({ text, revision, ...(undo ? { undo } : {}) });
		setReason("");
		session.changed();
	}

	async function write(change: { add?: Tuple[]; remove?: Tuple[] }, undo: Done["undo"] | undefined, text: string, why = reason.trim()): Promise<boolean> {
		setError(undefined);
		setConflict("");
		setDone(undefined);
		try {
			const keys = change.remove?.map(({ object, relation, subject }) => ({ object, relation, subject }));
			const result = await api.ask(route.store, "write", JSON.parse(JSON.stringify({ add: change.add, remove: keys })), why);
			finish(`${text}, revision ${result.revision}`, result.revision, undo);
			return true;
		} catch (e) {
			const failure = e as Failure;
			if (moved.includes(failure.code)) {
				setConflict(`${failure.code}: ${failure.message}. The list shows the store as it is now.`);
				session.changed();
			} else setError(failure);
			return false;
		}
	}

	/** remove removes a tuple if it still is what the list shows. */
	async function remove(t: Tuple) {
		try {
			const page = await api.ask(route.store, "read", { filter: filterOf(t.object, t.relation, t.subject), limit: 100 });
			const now = page.tuples.find((u) => textOf(u) === textOf(t));
			if (now && JSON.stringify(now) !== JSON.stringify(t)) {
				setDone(undefined);
				setConflict(`Nothing was removed: another caller has changed ${textOf(t)} since it was shown. The list shows it as it is now.`);
				session.changed();
				return;
			}
		} catch (e) {
			setError(e as Failure);
			return;
		}
		await write({ remove: [t] }, { add: [written(t)] }, `removed ${textOf(t)}`);
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
			{editable && <Import store={route.store} reason={reason.trim()} done={(text, revision, undo) => { setConflict(""); finish(text, revision, undo && { remove: undo }); }} />}
			{!editable && <p class="soft">{locked}</p>}
			{done && (
				<p class="ok" role="status">
					{visible(done.text)}. {done.undo && editable && <button type="button" onClick={() => write(done.undo!, undefined, "undone", `undo of revision ${done.revision}`)}>Undo</button>}
				</p>
			)}
			{conflict && <p class="trouble" role="alert">{visible(conflict)}</p>}
			<Trouble error={error ?? first.error} />
			<Waiting of={first} />
			{first.value && tuples.length === 0 && <p>{object || relation || subject ? "No tuple matches the filter." : `The store has no tuple${revision && " at this revision"}. A tuple says that a subject has a relation to an object, for example that user:anne is viewer of document:budget.`}</p>}
			{tuples.length > 0 && (
				<Rows name="Tuples" rows={tuples} keyOf={textOf} columns={editable ? 6 : 5} end={nextPage}
					head={<><th scope="col">Object</th><th scope="col">Relation</th><th scope="col">Subject</th><th scope="col">Condition, expiry</th><th scope="col">Written</th>{editable && <th scope="col">Edit</th>}</>}
					row={(t) => (
						<>
							<td title={visible(t.object)}><Name text={t.object} /></td>
							<td title={visible(t.relation)}><Name text={t.relation} /></td>
							<td title={visible(t.subject)}><Name text={t.subject} /></td>
							<td>{t.condition && <><Name text={t.condition} /> {t.context && <code>{visible(JSON.stringify(t.context))}</code>}</>} {t.expires && <>until {when(t.expires)}</>}</td>
							<td class="time">{when(t.created)}</td>
							{editable && <td><button type="button" aria-label={`Remove ${visible(textOf(t))}`} onClick={() => remove(t)}>Remove</button></td>}
						</>
					)} />
			)}
			{first.value && <p class="soft" role="status">{tuples.length} {tuples.length === 1 ? "tuple" : "tuples"}{next ? " so far" : ""}, revision {first.value.revision}. {next && <button type="button" onClick={nextPage}>Next {pageSize}</button>}</p>}
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
	async function submit(text: Record<string, string>, form: HTMLFormElement) {
		try {
			const context = parameters(text["context"]!);
			const tuple = { object: text["new-object"], relation: text["new-relation"], subject: text["new-subject"], condition: text["condition"] || undefined, context, expires: text["expires"] || undefined };
			if (await write(JSON.parse(JSON.stringify(tuple)))) form.reset();
		} catch (failure) {
			fail((failure as Error).message);
		}
	}
	return (
		<Form class="fields edit" submit={submit}>
			<Field name="new-subject" label="New subject" value="" placeholder="user:anne" required />
			<Field name="new-relation" label="New relation" value="" placeholder="viewer" required />
			<Field name="new-object" label="New object" value="" placeholder="document:budget" required />
			<Field name="condition" label="Condition, if any" value="" />
			<Field name="context" label="Its parameters, as JSON" value="" placeholder='{"opens": 9}' />
			<Field name="expires" label="Expires, if ever" value="" placeholder="2027-01-01T00:00:00Z" />
			<label class="field"><span>Reason, for the log: of the next write, import or removal</span><input value={reason} onInput={(e) => setReason(e.currentTarget.value)} maxLength={512} autocomplete="off" /></label>
			<button type="submit" class="main">Write</button>
		</Form>
	);
}
