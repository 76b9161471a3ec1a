// The decision log: from a logged decision to its question, to its explanation, and back.
import { api, Failure, type LoggedDecision } from "../api";
import { Field, ViewForm } from "../fields";
import { Trouble, useLoaded, Waiting } from "../load";
import { LogTrouble, Progress, useLog, type Found } from "../logpages";
import { Name, visible } from "../names";
import { link, type Route } from "../route";
import { Rows } from "../rows";
import { useSession } from "../session";
import { when } from "../text";
import { tokenOf } from "../tokens";
import { Why } from "../why";

const results = { true: "allowed", false: "denied", unknown: "undecided" } as const;
type Result = keyof typeof results;

/** enough is the number of decisions after which a search waits for the user. */
const enough = 100;

const resultOf = (d: LoggedDecision): Result => (d.result === null ? "unknown" : d.result ? "true" : "false");
const questionOf = (d: LoggedDecision) => `${d.input.subject} ${d.input.relation} ${d.input.object}`;

/** fieldsOf returns the filters of the view's URL. */
function fieldsOf(route: Route) {
	const text = (name: string) => route.params.get(name) ?? "";
	return { subject: text("subject"), relation: text("relation"), object: text("object"), caller: text("caller"), result: text("result"), since: text("since"), until: text("until"), at: text("at") };
}

/** filters returns the members of a request for a page of the log. */
function filters(f: ReturnType<typeof fieldsOf>) {
	const { at: _, ...members } = f;
	return Object.fromEntries(Object.entries(members).filter(([, v]) => v !== ""));
}

export function Decisions({ route }: { route: Route }) {
	const { rights, version } = useSession();
	const fields = fieldsOf(route), id = route.params.get("id") ?? "", near = route.params.get("near") ?? "";
	const admin = rights.includes("admin");
	return (
		<>
			<h1>Decisions</h1>
			<p class="soft">The decision log of the node that answers, the newest first. Each decision leads to its question and to why. It has the checks of services and of <q>Many at once</q>; the explanations and lists of this console are not logged.</p>
			<div class="filters">
				<ViewForm route={route} page="decisions" keep={{}} button="Filter">
					<Field name="subject" label="Subject" value={fields.subject} placeholder="user:anne" />
					<Field name="relation" label="Relation" value={fields.relation} placeholder="can_view" />
					<Field name="object" label="Object" value={fields.object} placeholder="document:budget" />
					<label class="field"><span>Result</span><select name="result" key={fields.result}>{["", ...Object.keys(results)].map((r) => <option key={r} value={r} selected={r === fields.result}>{r === "" ? "all" : results[r as Result]}</option>)}</select></label>
					<Field name="caller" label="Caller" value={fields.caller} />
					<Field name="since" label="Since" value={fields.since} placeholder="2026-01-02T15:00:00Z" />
					<Field name="until" label="Until" value={fields.until} placeholder="2026-01-02T16:00:00Z" />
				</ViewForm>
			</div>
			{!admin && <p class="trouble" role="alert">The key has no right admin on this store. The decision log has callers and their addresses, so it needs that right.</p>}
			{admin && (id !== "" ? <One key={id} route={route} id={id} near={near} /> : <List key={version} route={route} />)}
		</>
	);
}

/** untilOf returns the time when a revision was replaced by the next one, or "" if it is the newest one. */
async function untilOf(store: string, revision: string, signal: AbortSignal): Promise<string> {
	const page = await api.ask(store, "changes", { limit: 1, ...(Number(revision) > 0 && { after: await tokenOf(store, Number(revision), signal) }) }, "", signal);
	return page.entries[0]?.time ?? "";
}

function List({ route }: { route: Route }) {
	const { version } = useSession();
	const fields = fieldsOf(route);
	const log = useLog(async (cursor, s) => {
		const members = filters(fields);
		if (fields.at !== "") {
			const end = await untilOf(route.store, fields.at, s);
			if (end !== "" && (!fields.until || end < fields.until)) members["until"] = end;
		}
		const page = await api.ask(route.store, "decisions", { limit: 1000, ...members, ...(cursor && { cursor }) }, "", s);
		return { rows: page.decisions, next: page.next, ...(page.searched && { searched: page.searched }) };
	}, [route.store, JSON.stringify(fields)], version, enough);
	const filtered = Object.keys(filters(fields)).length > 0;
	return (
		<section aria-label="The log">
			{fields.at !== "" && <p>The past: decisions up to the end of revision {fields.at}.</p>}
			<LogTrouble error={log.error} what="its decisions" flag="--decision-log FOLDER" />
			{!log.error && <Progress log={log} what="decision" />}
			{log.rows.length === 0 && !log.loading && !log.error && log.next === "" && (filtered
				? <p>No logged decision is like that.</p>
				: <p>No decision about this store is logged yet. Each check is, whichever door it comes through, but no explanation: ask one with <code>ostiary check</code> or with your service, and load this page again.</p>)}
			{log.rows.length > 0 && (
				<>
					<Rows name="Decisions" columns={6} rows={log.rows} keyOf={(r) => r.row.decision_id} end={log.scrolled} row={(r) => <Row found={r} route={route} />}
						head={<><th scope="col">Time</th><th scope="col">Result</th><th scope="col">Question</th><th scope="col">Caller</th><th scope="col">Operation</th><th scope="col">Revision</th></>} />
					<p><a href={link(route.store, "what-if", { from: "log", at: fields.at })}>Which of them would be decided otherwise now?</a></p>
				</>
			)}
		</section>
	);
}

function Row({ found: { row: d, cursor }, route }: { found: Found<LoggedDecision>; route: Route }) {
	const result = resultOf(d);
	return (
		<>
			<td class="time">{when(d.timestamp)}</td>
			<td class={result}>{results[result]}</td>
			<td><a href={link(route.store, "decisions", { ...fieldsOf(route), id: d.decision_id, near: cursor })}><Name text={questionOf(d)} /></a></td>
			<td><Name text={d.caller ?? ""} /></td>
			<td><Name text={d.path} /></td>
			<td>{d.revision}</td>
		</>
	);
}

/** find looks for a decision: first on the page that had it, then in the whole log. */
async function find(store: string, id: string, near: string, signal: AbortSignal): Promise<LoggedDecision> {
	const page = (cursor: string) => api.ask(store, "decisions", { id, limit: 1, ...(cursor && { cursor }) }, "", signal);
	if (near !== "") {
		const there = (await page(near).catch(() => undefined))?.decisions[0]; // the file may be gone
		if (there) return there;
	}
	for (let cursor = ""; ;) {
		const { decisions, next } = await page(cursor);
		if (decisions[0]) return decisions[0];
		if (next === "") throw new Failure(404, "", `the log of this node has no decision ${id} about the store`);
		cursor = next;
	}
}

/** One shows a decision with its explanation. */
function One({ route, id, near }: { route: Route; id: string; near: string }) {
	const { store } = route, fields = fieldsOf(route);
	const found = useLoaded((s) => find(store, id, near, s), [store, id, near]);
	const d = found.value;
	return (
		<section aria-label="A decision">
			<p><a href={link(store, "decisions", fields)}>Back to the log</a></p>
			<Waiting of={found} />
			<LogTrouble error={found.error} what="its decisions" flag="--decision-log FOLDER" />
			{d && <Logged decision={d} store={store} at={fields.at} />}
		</section>
	);
}

function Logged({ decision: d, store, at }: { decision: LoggedDecision; store: string; at: string }) {
	const result = resultOf(d), { subject, relation, object, context, tuples, attributes } = d.input;
	const question = { kind: "check", subject, relation, object, context: context ? JSON.stringify(context) : "" };
	return (
		<>
			<p class={`verdict ${result}`}>
				<strong>Was {results[result]}</strong> <span><Name text={subject} /> <Name text={relation} /> <Name text={object} /></span> <span class="soft">revision {d.revision}, {when(d.timestamp)}</span>
			</p>
			{d.reason && <p>Why it was undecided: <Name text={d.reason} />.</p>}
			<dl class="facts">
				<dt>Caller</dt><dd><Name text={d.caller || "none"} />{d.requested_by && <>, from <Name text={d.requested_by} /></>}</dd>
				<dt>Operation</dt><dd><Name text={d.path} />{d.request_id && <>, request <Name text={d.request_id} /></>}</dd>
				{d.metrics?.timer_check_ns !== undefined && <><dt>Took</dt><dd>{(d.metrics.timer_check_ns / 1e6).toLocaleString("en", { maximumSignificantDigits: 3 })} ms, {d.metrics.counter_nodes ?? 0} nodes, {d.metrics.counter_conditions ?? 0} conditions</dd></>}
				{context && <><dt>Parameters</dt><dd><code>{visible(JSON.stringify(context))}</code></dd></>}
				{tuples && <><dt>Tuples of the request</dt><dd><code>{visible(JSON.stringify(tuples))}</code></dd></>}
				{attributes && <><dt>Attributes of the request</dt><dd><code>{visible(JSON.stringify(attributes))}</code></dd></>}
				{d.erased && <><dt>Left out of the log</dt><dd><Name text={d.erased.join(", ")} />: the question cannot be asked again as it was</dd></>}
				<dt>Decision</dt><dd><code>{visible(d.decision_id)}</code></dd>
			</dl>
			<p class="links">
				<a href={link(store, "ask", { ...question, at: d.revision })}>Try it at revision {d.revision}</a>
				<a href={link(store, "ask", question)}>Try it now</a>
				<a href={link(store, "what-if", { questions: questionOf(d), at })}>What would change it?</a>
				<a href={link(store, "decisions", { subject, relation, object, at })}>All decisions of this question</a>
				<a href={link(store, "time", { at: d.revision })}>The log at revision {d.revision}</a>
			</p>
			<Explained decision={d} store={store} />
		</>
	);
}

/** Explained asks a decision again, at its revision and with all of its input, and shows why. */
function Explained({ decision: d, store }: { decision: LoggedDecision; store: string }) {
	const again = useLoaded((s) => api.ask(store, "explain", { ...d.input, origins: true, short: true, at: { revision: Number(d.revision) } }, "", s), [store, d.decision_id]);
	const x = again.value, result = resultOf(d);
	return (
		<>
			<h2>Why</h2>
			<Waiting of={again} /><Trouble error={again.error} />
			{again.error?.code === "too_old" && <p>The past is kept for the time of the setting <code>--window</code>. <q>Try it now</q> asks the same question at the newest revision.</p>}
			{x && x.truth !== result && <p class="trouble" role="alert">Asked again at revision {d.revision}, it is {results[x.truth]}: {d.erased ? "the log does not have all of its input." : "tuples expire, and conditions may depend on the time; the revision is evaluated as of its own time."}</p>}
			{x && <Why explanation={x.explanation as Record<string, any>} subject={d.input.subject} store={store} revision={d.revision} />}
		</>
	);
}
