// Questions: may a subject do something, why, and what else may it.
import type { ComponentChildren } from "preact";
import { api, at, Failure, type Model } from "../api";
import { Field, ViewForm } from "../fields";
import { Trouble, useLoaded, Waiting } from "../load";
import { modelAt } from "../modelat";
import { Name, visible } from "../names";
import { link, type Route } from "../route";
import { useSession } from "../session";
import { parameters, split } from "../text";
import { Why } from "../why";
import { Batch } from "./batch";

const kinds = { check: "May it, and why?", objects: "Which objects?", subjects: "Who?", entitlements: "What may it do?", batch: "Many at once" } as const;
type Kind = keyof typeof kinds;

interface Question {
	store: string;
	kind: Kind;
	subject: string;
	relation: string;
	object: string;
	context: string;
	revision: string;
	cursor: string;
	questions: string;
}

/** complete reports whether the question has what its kind needs. */
function complete(q: Question): boolean {
	return { check: q.subject && q.relation && q.object, objects: q.subject && q.relation && q.object, subjects: q.relation && q.object && q.subject, entitlements: q.subject && q.object, batch: q.questions }[q.kind] !== "";
}

export function Ask({ route }: { route: Route }) {
	const text = (name: string) => route.params.get(name) ?? "";
	const kind = (text("kind") in kinds ? text("kind") : "check") as Kind;
	const q: Question = { store: route.store, kind, subject: text("subject"), relation: text("relation"), object: text("object"), context: text("context"), revision: text("at"), cursor: text("cursor"), questions: text("questions") };
	const { version } = useSession();
	const model = useLoaded((s) => modelAt(route.store, "", q.revision, s), [route.store, q.revision], version);
	const types = ((model.value?.schema?.model ?? {}) as Model).types ?? [];
	const relations = [...new Set(types.filter((t) => q.object === "" || t.name === split(q.object).type).flatMap((t) => (t.relations ?? []).map((r) => r.name)))];
	const fields = { subject: q.subject, relation: q.relation, object: q.object, context: q.context, at: q.revision };
	return (
		<>
			<h1>Ask</h1>
			<nav class="tabs" aria-label="Kinds of questions">
				{(Object.keys(kinds) as Kind[]).map((k) => <a key={k} href={link(route.store, "ask", { ...fields, kind: k })} aria-current={k === kind ? "page" : undefined}>{kinds[k]}</a>)}
			</nav>
			<ViewForm key={kind} route={route} page="ask" keep={{ kind }} button="Ask">
				{kind === "batch" && <Field name="questions" label="Questions, with SUBJECT RELATION OBJECT on each line" value={q.questions} rows={6} required placeholder={"user:anne can_view document:budget\nuser:bob can_view document:budget"} />}
				{kind !== "batch" && <Field name="subject" label={kind === "subjects" ? "Type of subjects" : "Subject"} value={q.subject} placeholder={kind === "subjects" ? "user" : "user:anne"} required />}
				{kind !== "entitlements" && kind !== "batch" && <Field name="relation" label="Relation" value={q.relation} placeholder="can_view" list="relations" required />}
				{kind !== "batch" && <Field name="object" label={kind === "objects" ? "Type of objects" : kind === "entitlements" ? "Objects, with spaces between" : "Object"} value={q.object} placeholder={kind === "objects" ? "document" : kind === "entitlements" ? "document:budget folder:plans" : "document:budget"} required />}
				<Field name="context" label="Parameters of conditions, as JSON" value={q.context} placeholder='{"now": "2026-01-02T15:04:05Z"}' />
				<datalist id="relations">{relations.map((r) => <option key={r} value={r} />)}</datalist>
			</ViewForm>
			{model.value && !model.value.schema && <p>The store has no model{q.revision && " at this revision"}, so there is nothing to ask yet. <a href={link(route.store, "model")}>Write one.</a></p>}
			{complete(q) ? <Answer q={q} types={types} /> : <Example kind={kind} />}
		</>
	);
}

/** Example has a question of a kind, in words. */
function Example({ kind }: { kind: Kind }) {
	const [subject, relation, object] = [<code>user:anne</code>, <code>can_view</code>, <code>document:budget</code>];
	return (
		<p class="soft">For example: {{
			check: <>may the subject {subject}, by the relation {relation}, view the object {object}, and why?</>,
			objects: <>for which objects of the type <code>document</code> does {subject} have {relation}?</>,
			subjects: <>which subjects of the type <code>user</code> have {relation} on {object}?</>,
			entitlements: <>which relations does {subject} have to {object} and to <code>folder:plans</code>?</>,
			batch: <>lines such as <code>user:anne can_view document:budget</code>, and the next question below it.</>,
		}[kind]}</p>
	);
}

/** contextOf returns the parameters of a question, for its request. */
function contextOf(q: Question): { context?: Record<string, unknown> } {
	let context: Record<string, unknown> | undefined;
	try {
		context = parameters(q.context);
	} catch (e) {
		throw new Failure(0, "", (e as Error).message);
	}
	return context ? { context } : {};
}

type Types = NonNullable<Model["types"]>;

function Answer({ q, types }: { q: Question; types: Types }) {
	switch (q.kind) {
		case "check": return <Decision q={q} />;
		case "objects": return <Objects q={q} />;
		case "subjects": return <Subjects q={q} />;
		case "entitlements": return <Entitlements q={q} types={types} />;
		case "batch": return <Batch store={q.store} text={q.questions} context={q.context} revision={q.revision} />;
	}
}

function useAnswer<T>(q: Question, load: (signal: AbortSignal) => Promise<T>) {
	const { version } = useSession();
	return useLoaded(load, [JSON.stringify(q)], version);
}

function Decision({ q }: { q: Question }) {
	const answer = useAnswer(q, async (s) => api.ask(q.store, "explain", { object: q.object, relation: q.relation, subject: q.subject, origins: true, short: true, ...contextOf(q), ...at(q.revision) }, "", s));
	const x = answer.value;
	const word = x && { true: "Allowed", false: "Denied", unknown: "Denied: undecided" }[x.truth];
	return (
		<section aria-label="Answer">
			<Waiting of={answer} />
			<Trouble error={answer.error} />
			{x && (
				<>
					<p class={`verdict ${x.truth}`} role="status">
						<strong>{word}</strong> <span><Name text={q.subject} /> <Name text={q.relation} /> <Name text={q.object} /></span> <span class="soft">revision {x.revision}</span>
					</p>
					{x.reasons?.missing && <p>Missing parameters: <Name text={x.reasons.missing.join(", ")} />.</p>}
					{x.reasons?.errors?.map((e) => <p key={e} class="trouble">{visible(e)}</p>)}
					<h2>Why</h2>
					<Why explanation={x.explanation as Record<string, any>} subject={q.subject} store={q.store} revision={q.revision} />
					<p class="soft"><a href={link(q.store, "ask", { kind: "check", subject: q.subject, relation: q.relation, object: q.object, context: q.context, at: String(x.revision) })}>Permalink</a> to this answer at revision {x.revision}. <a href={link(q.store, "decisions", { subject: q.subject, relation: q.relation, object: q.object })}>Logged decisions of this question</a>: those of services; this answer is an explanation, which is not logged.</p>
				</>
			)}
		</section>
	);
}

/** Found is a page of a list, each with a link to the check. */
function Found({ children, count, next, cut, undecided, q, revision }: { children: ComponentChildren; count: number; next: string; cut: string | undefined; undecided: { count: number; some: string[] } | undefined; q: Question; revision: number }) {
	const { subject, relation, object, context, kind } = q;
	return (
		<>
			<p role="status">{count} found{next && " on this page"}, revision {revision}.</p>
			<ul class="found">{children}</ul>
			{undecided && undecided.count > 0 && <p>{undecided.count} undecided: <Name text={undecided.some.join(", ")} /></p>}
			{cut && <p class="trouble">The bound {cut} ended the search early.</p>}
			{next && <p><a href={link(q.store, "ask", { kind, subject, relation, object, context, at: q.revision, cursor: next })}>Next page</a></p>}
		</>
	);
}

function Objects({ q }: { q: Question }) {
	const answer = useAnswer(q, async (s) => api.ask(q.store, "list-objects", { type: split(q.object).type, relation: q.relation, subject: q.subject, limit: 100, ...(q.cursor && { cursor: q.cursor }), ...contextOf(q), ...at(q.revision) }, "", s));
	const x = answer.value;
	return (
		<section aria-label="Answer">
			<Waiting of={answer} /><Trouble error={answer.error} />
			{x && <Found count={x.objects.length} next={x.next} cut={x.cut} undecided={x.undecided} q={q} revision={x.revision}>
				{x.objects.map((o) => <li key={o}><a href={link(q.store, "ask", { kind: "check", subject: q.subject, relation: q.relation, object: o, context: q.context, at: q.revision })}><Name text={o} /></a></li>)}
			</Found>}
		</section>
	);
}

function Subjects({ q }: { q: Question }) {
	const type = split(q.subject);
	const answer = useAnswer(q, async (s) => api.ask(q.store, "list-subjects", { object: q.object, relation: q.relation, subject_type: type.type, limit: 100, ...(q.cursor && { cursor: q.cursor }), ...contextOf(q), ...at(q.revision) }, "", s));
	const x = answer.value;
	return (
		<section aria-label="Answer">
			<Waiting of={answer} /><Trouble error={answer.error} />
			{x && x.everybody !== "false" && <p>Every other <Name text={type.type} />: {x.everybody === "true" ? "allowed" : "undecided"}{x.except && x.except.length > 0 && <>, except <Name text={x.except.join(", ")} /></>}.</p>}
			{x && <Found count={x.subjects.length} next={x.next} cut={x.cut} undecided={x.undecided} q={q} revision={x.revision}>
				{x.subjects.map((u) => <li key={u}><a href={link(q.store, "ask", { kind: "check", subject: u, relation: q.relation, object: q.object, context: q.context, at: q.revision })}><Name text={u} /></a></li>)}
			</Found>}
		</section>
	);
}

/** Entitlements shows a relation that the type of an object does not have as a dash. */
function Entitlements({ q, types }: { q: Question; types: Types }) {
	const answer = useAnswer(q, async (s) => api.ask(q.store, "entitlements", { subject: q.subject, objects: q.object.split(/\s+/).filter((o) => o !== ""), ...contextOf(q), ...at(q.revision) }, "", s));
	const x = answer.value;
	const columns = [...new Set(x?.objects.flatMap((o) => [...o.relations, ...(o.undecided ?? []).map((u) => u.relation)]))].sort();
	return (
		<section aria-label="Answer">
			<Waiting of={answer} /><Trouble error={answer.error} />
			{x && columns.length === 0 && <p role="status">Nothing, revision {x.revision}.</p>}
			{x && columns.length > 0 && (
				<div class="scroll" tabIndex={0} role="region" aria-label="What the subject may do">
					<table>
						<thead><tr><th scope="col">Object</th>{columns.map((c) => <th key={c} scope="col"><Name text={c} /></th>)}</tr></thead>
						<tbody>
							{x.objects.map((o) => (
								<tr key={o.object}>
									<th scope="row"><Name text={o.object} />{o.error && <Trouble error={new Failure(0, o.error.code, o.error.message)} />}</th>
									{columns.map((c) => {
										const truth = o.relations.includes(c) ? "true" : o.undecided?.some((u) => u.relation === c) ? "unknown" : "false";
										if (truth === "false" && !types.some((t) => t.name === split(o.object).type && t.relations?.some((r) => r.name === c))) return <td key={c} aria-label="no such relation">–</td>;
										return <td key={c} class={truth}><a href={link(q.store, "ask", { kind: "check", subject: q.subject, relation: c, object: o.object, context: q.context, at: q.revision })}>{{ true: "✓ yes", false: "✗ no", unknown: "? undecided" }[truth]}</a></td>;
									})}
								</tr>
							))}
						</tbody>
					</table>
				</div>
			)}
		</section>
	);
}
