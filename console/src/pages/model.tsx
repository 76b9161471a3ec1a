// The model of a store: its text, what is wrong with it while one types, and its graph.
import { useEffect, useMemo, useState } from "preact/hooks";
import { api, type Failure, type Model } from "../api";
import { Editor } from "../editor";
import { Picture } from "../graph";
import { Trouble, useLoaded, Waiting } from "../load";
import { Name, visible } from "../names";
import { modelAt } from "../modelat";
import { graphOf } from "../modelgraph";
import { link, type Route } from "../route";
import { useSession } from "../session";
import { when } from "../text";

/** pause is how long the user must not type before the API checks the model, in milliseconds. */
const pause = 400;

export function ModelPage({ route }: { route: Route }) {
	const session = useSession();
	const revision = route.params.get("at") ?? "";
	const loaded = useLoaded((s) => modelAt(route.store, route.params.get("schema") ?? "", revision, s), [route.store, route.params.get("schema"), revision], session.version);
	const schema = loaded.value?.schema;
	const text = schema?.source ?? "", dialect = schema?.dialect ?? "";
	const [edited, setEdited] = useState(text);
	const [error, setError] = useState<Failure>();
	const [checked, setChecked] = useState(false);
	const [saved, setSaved] = useState("");
	const [reason, setReason] = useState("");
	const editable = session.editing && revision === "" && dialect !== "";
	useEffect(() => { setEdited(text); setError(undefined); setChecked(false); }, [text]);
	useEffect(() => {
		setChecked(false);
		if (edited === text) { setError(undefined); return; }
		const stop = new AbortController();
		const timer = setTimeout(() => {
			api.ask(route.store, "what-if", { questions: [], proposed: { dialect, source: edited } }, "", stop.signal).then(
				() => { setError(undefined); setChecked(true); },
				(e) => stop.signal.aborted || setError(e),
			);
		}, pause);
		return () => { clearTimeout(timer); stop.abort(); };
	}, [edited, text, dialect, route.store]);
	const graph = useMemo(() => graphOf((schema?.model ?? {}) as Model), [schema]);

	async function save(e: Event) {
		e.preventDefault();
		try {
			const written = await api.ask(route.store, "schemas", { dialect, source: edited }, reason.trim());
			setSaved(`Schema ${written.id} is the current one, revision ${written.revision}.`);
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
			{loaded.value && !schema && <p>The store has no model {revision && "at this revision"}. Write one with <code>ostiary schema write FILE</code>.</p>}
			{schema && (
				<>
					<p class="soft">
						Schema <code>{schema.id}</code>{schema.namespace && <> of <Name text={schema.namespace} /></>}, written at revision {schema.revision}, {when(schema.created)}{dialect && <>, in <code>{dialect}</code></>}.
						{loaded.value!.others.length > 1 && <> Others: {loaded.value!.others.filter((o) => o.id !== schema.id).slice(0, 10).map((o) => <> <a href={link(route.store, "model", { schema: o.id, at: revision })}>revision {o.revision}</a></>)}</>}
					</p>
					<div class="beside">
						<div>
							<Editor text={text} editable={editable} error={error?.message ?? ""} onChange={setEdited} />
							<Trouble error={error} />
							{checked && <p class="ok" role="status">The model is valid. It is not saved yet.</p>}
							{saved && <p class="ok" role="status">{visible(saved)}</p>}
							{editable && (
								<form class="fields" onSubmit={save}>
									<label class="field"><span>Reason, for the log</span><input value={reason} onInput={(e) => setReason(e.currentTarget.value)} maxLength={512} autocomplete="off" /></label>
									<button type="submit" class="main" disabled={edited === text || error !== undefined}>Save model</button>
								</form>
							)}
							{!editable && <p class="soft">{revision !== "" ? "The past cannot be edited." : "Read-only: switch to edit at the top of the page."}</p>}
						</div>
						<Picture nodes={graph.nodes} edges={graph.edges} name="Types and relations of the stored model" />
					</div>
				</>
			)}
		</>
	);
}

