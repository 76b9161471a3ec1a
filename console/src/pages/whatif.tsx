// What if: decisions now, and after changes of tuples or of the model that are not written.
import { api, at, Failure } from "../api";
import { Field, ViewForm } from "../fields";
import { Trouble, useLoaded, Waiting } from "../load";
import { modelAt } from "../modelat";
import { Name, visible } from "../names";
import { link, type Route } from "../route";
import { useSession } from "../session";
import { lines } from "../text";

const texts = { true: "allowed", false: "denied", unknown: "undecided" } as const;

export function WhatIf({ route }: { route: Route }) {
	const text = (name: string) => route.params.get(name) ?? "";
	const [add, remove, proposed, questions, revision] = [text("added"), text("removed"), text("proposed"), text("questions"), text("at")];
	const { version } = useSession();
	const model = useLoaded((s) => modelAt(route.store, "", revision, s), [route.store, revision], version);
	const schema = model.value?.schema, dialect = schema?.dialect && schema.dialect !== "model" ? schema.dialect : "openfga-dsl";
	return (
		<>
			<h1>What if</h1>
			<p class="soft">Which decisions change if tuples are added or removed, or with another model? Nothing is written. Each line has SUBJECT RELATION OBJECT.</p>
			<ViewForm route={route} page="what-if" keep={{}} button="Try it">
				<Field name="added" label="Tuples to add" value={add} rows={3} placeholder="user:bob member team:platform" />
				<Field name="removed" label="Tuples to remove" value={remove} rows={3} placeholder="user:bob blocked document:budget" />
				<Field name="proposed" label={`Another model, in ${dialect}`} value={proposed} rows={proposed ? 12 : 3} placeholder="The model stays as it is" />
				<Field name="questions" label="Questions; without any, the decisions of the last hour that the server has recorded" value={questions} rows={4} placeholder="user:bob can_view document:budget" />
			</ViewForm>
			{schema?.source && !proposed && <p class="soft"><a href={link(route.store, "what-if", { added: add, removed: remove, questions, at: revision, proposed: schema.source })}>Edit a copy of the model</a></p>}
			<Trouble error={model.error} />
			{(add || remove || proposed) && model.value && <Result store={route.store} add={add} remove={remove} proposed={proposed} dialect={dialect} namespace={schema?.namespace ?? ""} questions={questions} revision={revision} />}
		</>
	);
}

interface ResultProps {
	store: string;
	add: string;
	remove: string;
	proposed: string;
	dialect: string;
	namespace: string;
	questions: string;
	revision: string;
}

function Result({ store, add, remove, proposed, dialect, namespace, questions, revision }: ResultProps) {
	const result = useLoaded(async (s) => {
		try {
			const asked = questions ? { questions: lines(questions), unchanged: true } : { recorded: { minutes: 60 } };
			return await api.ask(store, "what-if", { ...asked, changes: { add: lines(add), remove: lines(remove) }, ...(proposed && { proposed: { dialect, source: proposed, ...(namespace && { namespace }) } }), ...at(revision) }, "", s);
		} catch (e) {
			throw e instanceof Failure || s.aborted ? e : new Failure(0, "", (e as Error).message);
		}
	}, [store, add, remove, proposed, dialect, namespace, questions, revision]);
	const x = result.value;
	return (
		<section aria-label="Result">
			<Waiting of={result} /><Trouble error={result.error} />
			{x && <p role="status">{x.asked} of {x.questions} asked: {x.gained} gained, {x.lost} lost, {x.other} changed otherwise{x.failed > 0 && `, ${x.failed} failed`}. Revision {x.revision}.{x.partial && ` The bound ${x.partial} ended the evaluation.`}</p>}
			{x && x.items.length > 0 && (
				<div class="scroll" tabIndex={0} role="region" aria-label="Decisions before and after">
					<table>
						<thead><tr><th scope="col">Question</th><th scope="col">Now</th><th scope="col">Then</th></tr></thead>
						<tbody>
							{x.items.map((i) => (
								<tr key={i.number} class={i.before.truth !== i.after.truth ? "changed" : ""}>
									<td><a href={link(store, "ask", { kind: "check", subject: i.subject, relation: i.relation, object: i.object, at: revision })}><Name text={`${i.subject} ${i.relation} ${i.object}`} /></a></td>
									{[i.before, i.after].map((r, n) => <td key={n} class={r.truth ?? "unknown"}>{r.error ? <code>{visible(r.error.message)}</code> : texts[r.truth ?? "false"]}</td>)}
								</tr>
							))}
						</tbody>
					</table>
				</div>
			)}
		</section>
	);
}
