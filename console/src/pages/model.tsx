// The model of a store: its text, what is wrong with it while one types, the graph of what is
// typed, and tests of it.
import { useEffect, useMemo, useState } from "preact/hooks";
import { api, at, Failure, type Model, type WhatIfResult } from "../api";
import { checks, type Check } from "../checks";
import { firstModel } from "../demo";
import { drafts } from "../drafts";
import { Editor } from "../editor";
import { Field, ViewForm } from "../fields";
import { Picture } from "../graph";
import { Trouble, useLoaded, Waiting } from "../load";
import { useLocked } from "../locked";
import { Name, visible } from "../names";
import { modelAt } from "../modelat";
import { graphOf } from "../modelgraph";
import { go, link, type Route } from "../route";
import { useSession } from "../session";
import { when } from "../text";

/** pause is how long the user must not type before the API checks the model, in milliseconds. */
const pause = 400;

export function ModelPage({ route }: { route: Route }) {
	const session = useSession();
	const revision = route.params.get("at") ?? "";
	const loaded = useLoaded((s) => modelAt(route.store, route.params.get("schema") ?? "", revision, s), [route.store, route.params.get("schema"), revision], session.version);
	const schema = loaded.value?.schema, empty = loaded.value !== undefined && !schema && revision === "";
	const text = schema?.source ?? (empty ? firstModel : ""), dialect = schema ? schema.dialect ?? "" : empty ? "openfga-dsl" : "";
	const namespace = schema?.namespace ? { namespace: schema.namespace } : {};
	// The editor begins with the draft of the tab, if there is one; round rises when it begins again.
	const locked = useLocked("schema", revision), editable = locked === "" && dialect !== "";
	const view = `${route.store} ${route.params.get("schema") ?? ""}`, [round, setRound] = useState(0);
	const draft = useMemo(() => (loaded.value && revision === "" ? drafts.get(view) : undefined), [view, text, editable, round, loaded.value === undefined]);
	const start = editable && draft ? draft.text : text;
	const [edited, setEdited] = useState(text), [kept, setKept] = useState(true);
	const [error, setError] = useState<Failure>();
	const [answer, setAnswer] = useState<{ text: string; result: WhatIfResult }>();
	const [drawn, setDrawn] = useState<unknown>(); // the last valid model that was typed
	const [saved, setSaved] = useState("");
	const [reason, setReason] = useState("");
	const testText = route.params.get("tests") ?? "";
	const tests = useMemo((): { list: Check[]; error: string } => {
		try {
			return { list: checks(testText), error: "" };
		} catch (e) {
			return { list: [], error: (e as Error).message };
		}
	}, [testText]);
	useEffect(() => { setEdited(start); setError(undefined); setAnswer(undefined); setDrawn(undefined); }, [start, editable, round]);
	const changed = edited !== text || empty;
	useEffect(() => {
		if ((!changed && tests.list.length === 0) || dialect === "" || (dialect === "model" && !changed)) { setError(undefined); setAnswer(undefined); return; }
		const stop = new AbortController();
		const timer = setTimeout(() => {
			const questions = tests.list.map(({ subject, relation, object }) => ({ subject, relation, object }));
			api.ask(route.store, "what-if", { questions, proposed: { dialect, source: edited, ...namespace }, unchanged: true, show_model: true, ...at(revision) }, "", stop.signal).then(
				(result) => { setError(undefined); setAnswer({ text: edited, result }); setDrawn(result.model); },
				(e) => { if (!stop.signal.aborted) { setError(e); setAnswer(undefined); } },
			);
		}, pause);
		return () => { clearTimeout(timer); stop.abort(); };
	}, [edited, changed, tests, dialect, route.store, revision, session.version]);
	const fresh = answer?.text === edited ? answer.result : undefined;
	const shown = (changed ? drawn : undefined) ?? schema?.model;
	const graph = useMemo(() => graphOf((shown ?? {}) as Model), [shown]);

	function type(now: string) {
		setEdited(now);
		setSaved("");
		if (now === text) drafts.remove(view);
		else setKept(drafts.set(view, { text: now, of: draft?.of ?? schema?.id ?? "" }));
	}

	function throwAway() {
		drafts.remove(view);
		setRound(round + 1);
	}

	async function save(e: Event) {
		e.preventDefault();
		try {
			const written = await api.ask(route.store, "schemas", { dialect, source: edited, ...namespace }, reason.trim());
			setSaved(`Schema ${written.id} is the current one, revision ${written.revision}.`);
			setReason("");
			if (drafts.get(view)?.text === edited) drafts.remove(view);
			session.changed();
		} catch (failure) {
			setError(failure as Failure);
		}
	}

	return (
		<>
			<h1>Model</h1>
			<Waiting of={loaded} />
			<Trouble error={loaded.error} />
			{loaded.value && !schema && <p>The store has no model{revision ? " at this revision." : ": it defines the types of objects, and the relations that subjects may have to them. The text below is that of the demo, to begin with; it is not saved."}</p>}
			{(schema || empty) && (
				<>
					{schema && <p class="soft">
						Schema <code>{schema.id}</code>{schema.namespace && <> of <Name text={schema.namespace} /></>}, written at revision {schema.revision}, {when(schema.created)}{dialect && <>, in <code>{dialect}</code></>}.
						{loaded.value!.others.length > 1 && <> Others: {loaded.value!.others.filter((o) => o.id !== schema.id).slice(0, 10).map((o) => <> <a href={link(route.store, "model", { schema: o.id, at: revision })}>revision {o.revision}</a></>)}</>}
					</p>}
					<div class="beside">
						<div>
							<Editor key={round} text={start} editable={editable} error={error?.message ?? ""} onChange={type} />
							<Trouble error={error} />
							{(editable ? edited !== text && saved === "" : draft) && (
								<p class="past-note">
									{!editable ? "This tab has a draft of the model, which is not saved: switch to edit to go on with it."
										: kept ? "This is a draft. It is kept in this tab, also when you leave the page or load it again, until you save it, sign out or close the tab."
										: "This is a draft, and too large to be kept in this tab: it is lost when you leave the page."}
									{draft && draft.of !== (schema?.id ?? "") && " Another model was saved since the draft was begun; saving the draft replaces it."}{" "}
									<button type="button" onClick={throwAway}>Throw the draft away</button>
								</p>
							)}
							{changed && fresh && <p class="ok" role="status">The model is valid. It is not saved yet. <a href={link(route.store, "what-if", { proposed: edited })}>What would it change?</a></p>}
							{saved && <p class="ok" role="status">{visible(saved)}</p>}
							{editable && (
								<form class="fields" onSubmit={save}>
									<label class="field"><span>Reason, for the log</span><input value={reason} onInput={(e) => setReason(e.currentTarget.value)} maxLength={512} autocomplete="off" /></label>
									<button type="submit" class="main" disabled={!changed || error !== undefined}>Save model</button>
								</form>
							)}
							{!editable && <p class="soft">{locked || "The API has no text of this model."}</p>}
						</div>
						<Picture nodes={graph.nodes} edges={graph.edges} name={changed ? "Types and relations of the edited model" : "Types and relations of the stored model"} />
					</div>
					{dialect !== "" && <Tests route={route} text={testText} error={tests.error} list={tests.list} result={fresh} schema={schema?.id ?? ""} />}
				</>
			)}
		</>
	);
}

interface TestsProps {
	route: Route;
	text: string;
	error: string;
	list: Check[];
	result: WhatIfResult | undefined;
	schema: string;
}

/** Tests runs questions on the model as it is typed. Nothing of them is written. */
function Tests({ route, text, error, list, result, schema }: TestsProps) {
	const [failure, setFailure] = useState<Failure>(), [left, setLeft] = useState(0);
	const items = result?.items ?? [], wrong = items.filter((i) => (i.after.truth === "true") !== list[i.number]?.expected || i.after.error);
	async function take() {
		setFailure(undefined);
		try {
			const all = (await api.assertions(route.store, schema)).assertions ?? [];
			const plain = all.filter((a) => !a.contextual_tuples?.length && !a.context);
			setLeft(all.length - plain.length);
			if (plain.length === 0) throw new Failure(0, "", `the model has ${all.length} assertions of OpenFGA, none of them without contextual tuples and context`);
			const taken = plain.map(({ tuple_key: k, expectation }) => `${expectation ? "" : "not "}${k.user} ${k.relation} ${k.object}`).join("\n");
			go(link(route.store, "model", { ...Object.fromEntries(route.params), tests: taken }));
		} catch (e) {
			setFailure(e as Failure);
		}
	}
	return (
		<section aria-label="Tests">
			<h2>Tests</h2>
			<ViewForm route={route} page="model" keep={{ schema: route.params.get("schema") ?? "" }} button="Run while I type">
				<Field name="tests" label='Questions that must be allowed, one on each line, or with "not" before it denied' value={text} rows={4} placeholder={"user:anne can_view document:budget\nnot user:bob can_view document:budget"} />
			</ViewForm>
			{schema && <p class="soft"><button type="button" onClick={take}>Take OpenFGA's assertions of this model</button>{left > 0 && ` ${left} with contextual tuples or context are left out.`}</p>}
			<Trouble error={failure} />
			{error && <p class="trouble" role="alert">{visible(error)}</p>}
			{list.length > 0 && result && <p class={wrong.length ? "trouble" : "ok"} role="status">{wrong.length === 0 ? `All ${list.length} tests pass.` : `${wrong.length} of ${list.length} tests fail.`}</p>}
			{result && wrong.length > 0 && (
				<ul class="found">{wrong.map((i) => <li key={i.number}><Name text={`${i.subject} ${i.relation} ${i.object}`} />: {i.after.error ? <code>{visible(i.after.error.message)}</code> : <>{({ true: "allowed", false: "denied", unknown: "undecided" } as const)[i.after.truth ?? "false"]}, expected {list[i.number]?.expected ? "allowed" : "denied"}</>}</li>)}</ul>
			)}
		</section>
	);
}
