// What if: decisions now, and after changes of tuples or of the model that are not written.
import { api, at, Failure, type LoggedDecision, type WhatIfResult } from "../api";
import { Field, ViewForm } from "../fields";
import { Trouble, useLoaded, Waiting } from "../load";
import { LogTrouble } from "../logpages";
import { modelAt } from "../modelat";
import { Name, visible } from "../names";
import { link, type Route } from "../route";
import { useSession } from "../session";
import { lines } from "../text";

/** unchanged marks a question without a change. */
function unchanged({ added, removed, proposed, from }: Record<string, string>): Record<string, string> {
	return added || removed || proposed || from ? {} : { added: "Fill in a change: tuples to add or to remove, or another model" };
}

const texts = { true: "allowed", false: "denied", unknown: "undecided" } as const;

export function WhatIf({ route }: { route: Route }) {
	const text = (name: string) => route.params.get(name) ?? "";
	const [add, remove, proposed, questions, revision] = [text("added"), text("removed"), text("proposed"), text("questions"), text("at")];
	const from = text("from") === "log" ? "log" : "";
	const { version } = useSession();
	const model = useLoaded((s) => modelAt(route.store, "", revision, s), [route.store, revision], version);
	const schema = model.value?.schema, dialect = schema?.dialect && schema.dialect !== "model" ? schema.dialect : "openfga-dsl";
	return (
		<>
			<h1>What if</h1>
			<p class="soft">Which decisions change if tuples are added or removed, or with another model? Nothing is written. Each line has SUBJECT RELATION OBJECT.</p>
			<ViewForm route={route} page="what-if" keep={{}} button="Try it" wrong={unchanged}>
				<Field name="added" label="Tuples to add" value={add} rows={3} placeholder="user:bob member team:platform" />
				<Field name="removed" label="Tuples to remove" value={remove} rows={3} placeholder="user:bob blocked document:budget" />
				<Field name="proposed" label={`Another model, in ${dialect}`} value={proposed} rows={proposed ? 12 : 3} placeholder="The model stays as it is" />
				<label class="field"><span>Questions from</span><select name="from" key={from}><option value="" selected={from === ""}>the lines below, or the recorded last hour</option><option value="log" selected={from === "log"}>the newest {loggedMax.toLocaleString("en")} of the decision log</option></select></label>
				<Field name="questions" label="Questions" value={questions} rows={4} placeholder="user:bob can_view document:budget" />
			</ViewForm>
			<p class="soft">Without lines, the decisions of the last hour are asked, if the server records them (<code>--record-decisions</code>).</p>
			{schema?.source && !proposed && <p class="soft"><a href={link(route.store, "what-if", { added: add, removed: remove, questions, from, at: revision, proposed: schema.source })}>Edit a copy of the model</a></p>}
			<Trouble error={model.error} />
			{(add || remove || proposed || from) && model.value && <Result store={route.store} from={from} add={add} remove={remove} proposed={proposed} dialect={dialect} namespace={schema?.namespace ?? ""} questions={questions} revision={revision} />}
		</>
	);
}

/** loggedMax is how many decisions of the log are asked again. */
const loggedMax = 2000;

/** logged returns the newest decisions of the log, and how many are left out because the log does not have all of their input. */
async function logged(store: string, signal: AbortSignal): Promise<{ decisions: LoggedDecision[]; erased: number }> {
	const decisions: LoggedDecision[] = [];
	let erased = 0;
	for (let cursor = ""; ;) {
		const page = await api.ask(store, "decisions", { limit: 1000, ...(cursor && { cursor }) }, "", signal);
		for (const d of page.decisions) {
			if (d.erased) erased++;
			else if (decisions.length < loggedMax) decisions.push(d);
		}
		if (page.next === "" || decisions.length === loggedMax) return { decisions, erased };
		cursor = page.next;
	}
}

const resultOf = (d: LoggedDecision) => (d.result === null ? "unknown" : d.result ? "true" : "false");

interface ResultProps {
	store: string;
	from: string;
	add: string;
	remove: string;
	proposed: string;
	dialect: string;
	namespace: string;
	questions: string;
	revision: string;
}

function Result({ store, from, add, remove, proposed, dialect, namespace, questions, revision }: ResultProps) {
	const result = useLoaded(async (s) => {
		try {
			const changes = { add: lines(add), remove: lines(remove) }, proposal = proposed ? { proposed: { dialect, source: proposed, ...(namespace && { namespace }) } } : {};
			if (from === "") {
				const asked = questions ? { questions: lines(questions), unchanged: true } : { recorded: { minutes: 60 } };
				return { erased: 0, ...await api.ask(store, "what-if", { ...asked, changes, ...proposal, ...at(revision) }, "", s) };
			}
			const { decisions, erased } = await logged(store, s);
			const unchanged = !add && !remove && !proposed;
			const found = await api.ask(store, "what-if", { questions: decisions.map((d) => d.input), unchanged, changes, ...proposal, ...at(revision) }, "", s);
			return { erased, ...(unchanged ? sinceLogged(found, decisions) : found) };
		} catch (e) {
			throw e instanceof Failure || s.aborted ? e : new Failure(0, "", (e as Error).message);
		}
	}, [store, from, add, remove, proposed, dialect, namespace, questions, revision]);
	const x = result.value, log = from !== "" && !add && !remove && !proposed;
	return (
		<section aria-label="Result">
			<Waiting of={result} />
			{from ? <LogTrouble error={result.error} what="its decisions" flag="--decision-log FOLDER" /> : <Trouble error={result.error} />}
			{x && <p role="status">{x.asked} of {x.questions} asked: {x.gained} gained, {x.lost} lost, {x.other} changed otherwise{x.failed > 0 && `, ${x.failed} failed`}. Revision {x.revision}.{x.partial && ` The bound ${x.partial} ended the evaluation.`}</p>}
			{x && x.erased > 0 && <p>{x.erased} decisions are left out, because the log does not have all of their input.</p>}
			{x && x.items.length === 0 && <p class="soft">{log ? "All of them would be decided as they were." : "Nothing would change."}</p>}
			{x && x.items.length > 0 && (
				<div class="scroll" tabIndex={0} role="region" aria-label="Decisions before and after">
					<table>
						<thead><tr><th scope="col">Question</th><th scope="col">{log ? "Logged" : "Now"}</th><th scope="col">{log ? "Now" : "Then"}</th></tr></thead>
						<tbody>
							{x.items.map((i) => (
								<tr key={i.number} class={i.before.truth !== i.after.truth ? "changed" : ""}>
									<td><a href={link(store, "ask", { kind: "check", subject: i.subject, relation: i.relation, object: i.object, context: i.context ? JSON.stringify(i.context) : "", at: revision })}><Name text={`${i.subject} ${i.relation} ${i.object}`} /></a></td>
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

/** sinceLogged compares what was logged with what the API answers now, and keeps what differs. */
function sinceLogged(found: WhatIfResult, decisions: LoggedDecision[]): WhatIfResult {
	const items = found.items.map((i) => ({ ...i, before: { ...i.after, error: undefined, truth: resultOf(decisions[i.number]!) }, after: i.before })) as WhatIfResult["items"];
	const changed = items.filter((i) => !i.after.error && i.before.truth !== i.after.truth);
	const gained = changed.filter((i) => i.after.truth === "true").length, lost = changed.filter((i) => i.before.truth === "true").length;
	return { ...found, items: items.filter((i) => i.after.error || i.before.truth !== i.after.truth), gained, lost, other: changed.length - gained - lost };
}
