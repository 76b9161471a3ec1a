// The audit log: who did what, from where, and with which outcome; and what was refused.
import { api, type AuditRecord } from "../api";
import { Field, ViewForm } from "../fields";
import { Trouble, useLoaded } from "../load";
import { LogTrouble, Progress, useLog } from "../logpages";
import { Name, visible } from "../names";
import { link, type Route } from "../route";
import { Rows } from "../rows";
import { useSession } from "../session";
import { when } from "../text";

const logs = { audit: "What was done", refusals: "Requests without an effect" } as const;
type Log = keyof typeof logs;

const kinds = { write: "writes", login: "logins", refusal: "refusals", keys: "keys read again", node: "roles of the node", command: "commands", lost: "lost records", begin: "beginnings of files", head: "signatures", end: "ends of files" };
const outcomes = { made: "made", refused: "refused", rejected: "rejected", failed: "failed", uncertain: "uncertain" };

/** enough is the number of records after which a search waits for the user. */
const enough = 100;

const names = ["kind", "outcome", "door", "operation", "caller", "store", "since", "until"] as const;

export function Audit({ route }: { route: Route }) {
	const { version } = useSession();
	const me = useLoaded((s) => api.me("", s), [], version);
	const text = (name: string) => route.params.get(name) ?? "";
	const log = (text("log") in logs ? text("log") : "audit") as Log;
	const fields = Object.fromEntries(names.map((n) => [n, text(n)])) as Record<(typeof names)[number], string>;
	return (
		<>
			<h1>Audit</h1>
			<p class="soft">The audit log of the node that answers, the newest first. <code>ostiary audit verify</code> finds out whether its files were changed.</p>
			<nav class="tabs" aria-label="Logs">
				{(Object.keys(logs) as Log[]).map((l) => <a key={l} href={link("", "audit", { ...fields, log: l === "audit" ? "" : l })} aria-current={l === log ? "page" : undefined}>{logs[l]}</a>)}
			</nav>
			<div class="filters">
				<ViewForm route={route} page="audit" keep={log === "audit" ? {} : { log }} button="Filter">
					<Choice name="kind" label="Kind" value={fields.kind} of={kinds} />
					<Choice name="outcome" label="Outcome" value={fields.outcome} of={outcomes} />
					<Field name="caller" label="Caller" value={fields.caller} />
					<Field name="store" label="Store, by id" value={fields.store} />
					<Field name="door" label="Door" value={fields.door} placeholder="native" />
					<Field name="operation" label="Operation" value={fields.operation} placeholder="Write" />
					<Field name="since" label="Since" value={fields.since} placeholder="2026-01-02T15:00:00Z" />
					<Field name="until" label="Until" value={fields.until} placeholder="2026-01-02T16:00:00Z" />
				</ViewForm>
			</div>
			<Trouble error={me.error} />
			{me.value && !me.value.administers && <p class="trouble" role="alert">The key does not administer all stores. The audit log is about all of them, so it needs the right admin on each.</p>}
			{me.value?.administers && <List log={log} fields={fields} route={route} />}
		</>
	);
}

function Choice({ name, label, value, of }: { name: string; label: string; value: string; of: Record<string, string> }) {
	return <label class="field"><span>{label}</span><select name={name} key={value}>{["", ...Object.keys(of)].map((o) => <option key={o} value={o} selected={o === value}>{o === "" ? "all" : of[o]}</option>)}</select></label>;
}

function List({ log, fields, route }: { log: Log; fields: Record<string, string>; route: Route }) {
	const { version } = useSession();
	const members = Object.fromEntries(Object.entries(fields).filter(([, v]) => v !== ""));
	const found = useLog(async (cursor, s) => {
		const page = await api.audit({ limit: 1000, log, ...members, ...(cursor && { cursor }) }, s);
		return { rows: page.records, next: page.next, ...(page.searched && { searched: page.searched }) };
	}, [log, JSON.stringify(members)], version, enough);
	const chosen = route.params.get("record") ?? "", one = found.rows.find((r) => String(r.row.number) === chosen)?.row;
	const to = (record: string) => link("", "audit", { ...fields, log: log === "audit" ? "" : log, record });
	return (
		<section aria-label="Records">
			<LogTrouble error={found.error} what="an audit log" flag="--audit-folder FOLDER" />
			{!found.error && <Progress log={found} what="record" />}
			{found.rows.length === 0 && !found.loading && !found.error && found.next === "" && (Object.keys(members).length > 0
				? <p>No record is like that.</p>
				: <p>{log === "audit" ? "Nothing is recorded yet. Each request that writes, each login and each change of keys will be here." : "Nothing was refused yet. A request without a key, with a wrong one, or with one that lacks a right will be here."}</p>)}
			{chosen !== "" && (one || !found.loading) && <One record={one} number={chosen} back={to("")} />}
			{found.rows.length > 0 && (
				<Rows name="Records" columns={8} rows={found.rows} keyOf={(r) => String(r.row.number)} end={found.scrolled} row={({ row }) => <Row record={row} href={to(String(row.number))} />}
					head={<><th scope="col">Record</th><th scope="col">Time</th><th scope="col">What</th><th scope="col">Outcome</th><th scope="col">Caller</th><th scope="col">From</th><th scope="col">Changed</th><th scope="col">Why</th></>} />
			)}
		</section>
	);
}

const tones: Record<string, string> = { made: "true", refused: "false", rejected: "false", failed: "false", uncertain: "unknown" };

function Row({ record: r, href }: { record: AuditRecord; href: string }) {
	return (
		<>
			<td><a href={href}>{r.number}</a></td>
			<td class="time">{when(r.time)}{r.count !== undefined && <span class="soft"> {r.count} times until {when(r.until)}</span>}</td>
			<td><Name text={[r.door, r.operation].filter(Boolean).join(" ") || r.kind} />{r.door && r.kind !== "write" && <> <span class="soft">{r.kind}</span></>}</td>
			<td class={tones[r.outcome ?? ""] ?? ""}>{r.outcome ?? ""} <span class="soft">{r.status}</span></td>
			<td><Name text={r.caller?.id ?? ""} />{r.caller?.owner && <span class="soft"> of <Name text={r.caller.owner} /></span>}</td>
			<td><Name text={r.from ?? ""} /></td>
			<td>{r.changes?.length ? r.changes.map((c) => <span key={c.store}><a href={link(c.store, "time", { at: c.revision ? String(c.revision) : "" })}>{c.revision ? `revision ${c.revision}` : "the store"}</a> </span>) : <Name text={r.store ?? ""} />}</td>
			<td>{r.why && <Name text={r.why} />} {r.reason && <q><Name text={r.reason} /></q>}</td>
		</>
	);
}

/** One shows all members of a record, as the file has them. */
function One({ record, number, back }: { record: AuditRecord | undefined; number: string; back: string }) {
	return (
		<section class="one" aria-label={`Record ${visible(number)}`}>
			<h2>Record {visible(number)}</h2>
			{record ? <pre><code>{JSON.stringify(record, null, 2).split("\n").map(visible).join("\n")}</code></pre> : <p>It is not among the records below. Search further back, or change the filters.</p>}
			<p><a href={back}>Close</a></p>
		</section>
	);
}
