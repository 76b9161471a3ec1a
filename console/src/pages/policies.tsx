// The policies of a store (XACML): their tree with a decision painted on it, and test files.
import { useState } from "preact/hooks";
import { Failure } from "../api";
import { Field, ViewForm } from "../fields";
import { Trouble, useLoaded, Waiting } from "../load";
import { useLocked } from "../locked";
import { Name, visible } from "../names";
import { policies, requestOf, type Domain, type Explained } from "../policies";
import { Tree, useTree } from "../policytree";
import { link, type Route } from "../route";
import { useSession } from "../session";
import { Tests } from "./policytests";

/** example is the root that the empty state makes. */
const example = `policy example {
  apply denyUnlessPermit
  rule "anne-reads" {
    target clause actionId == "read" and subjectId == "user:anne"
    permit
  }
}
`;

export function Policies({ route }: { route: Route }) {
	const { store } = route, { version } = useSession();
	const domain = useLoaded((s) => policies.domain(store, s), [store], version);
	const missing = domain.error?.code === "no_domain" || domain.value && !domain.value.root && domain.value.policies === 0;
	const absent = domain.error?.status === 404 && domain.error.code !== "no_domain" && domain.error.code !== "no_store";
	return (
		<>
			<h1>Policies</h1>
			<p class="soft">The XACML policies of the store, and how they decide a request.</p>
			<Waiting of={domain} />
			{absent ? <p>This server has no XACML door: <code>ostiary console</code> has none, and <code>ostiary serve</code> has it unless <code>--doors</code> leaves it out.</p> : !missing && <Trouble error={domain.error} />}
			{missing && <Empty store={store} />}
			{domain.value && !missing && <Known route={route} domain={domain.value} />}
		</>
	);
}

/** Empty teaches what a policy is, and makes one by one click. */
function Empty({ store }: { store: string }) {
	const { changed } = useSession(), locked = useLocked("schema", "");
	const [error, setError] = useState<Failure>();
	const make = () => policies.change(store, { root: { language: "text", text: example } }, "an example of a policy").then(changed, (e) => setError(e as Failure));
	return (
		<section aria-label="No policy yet">
			<p>The store has no policies yet. A policy decides a request by rules over attributes of the subject, the resource and the action; the root policy decides for the store. With <code>related(…)</code> a rule asks the relations of this store. For example:</p>
			<pre><code>{example}</code></pre>
			<p><button type="button" disabled={locked !== ""} aria-describedby={locked ? "locked" : undefined} onClick={make}>Write this policy</button>{locked && <span class="soft" id="locked"> {locked}</span>}</p>
			<Trouble error={error} />
			<p class="soft">Or by a client: <code>curl -X PUT …/stores/{visible(store)}/xacml/v3/root -H 'Content-Type: text/plain' --data-binary @policy.alfa</code></p>
		</section>
	);
}

/** empty marks a request with nothing in it. */
function empty({ subject, resource, action, request }: Record<string, string>): Record<string, string> {
	return subject || resource || action || request ? {} : { subject: "Fill in a subject, a resource or an action, or a whole request" };
}

function Known({ route, domain }: { route: Route; domain: Domain }) {
	const { store } = route, text = (name: string) => route.params.get(name) ?? "";
	const own = domain.store === store, at = text("at");
	const revision = own ? at : /^[1-9]\d{0,14}$/.test(text("revision")) ? text("revision") : "";
	const fields = { subject: text("subject"), resource: text("resource"), action: text("action"), request: text("request"), revision: own ? "" : revision };
	const request = fields.request || (fields.subject || fields.resource || fields.action ? requestOf(fields.subject, fields.resource, fields.action) : "");
	const answer = useLoaded(async (s) => (request === "" ? undefined : policies.explain(store, request, revision, s)), [store, request, revision]);
	const [which, setWhich] = useState(0), { version } = useSession();
	const shown = text("show"), x = answer.value;
	const decided = revision || (x ? String(x.revision) : ""); // the tree is the one that has decided
	const tree = useTree(store, decided, version);
	const trace = x?.trace[Math.min(which, x.trace.length - 1)];
	return (
		<>
			{domain.broken && <p class="trouble" role="alert">The policies cannot decide: {visible(domain.broken)}</p>}
			{at !== "" && !own && <p class="past-note">The slider is about the relations. The policies have revisions of their own, in the field below, and ask the relations as they are now.</p>}
			<ViewForm route={route} page="policies" keep={{ show: shown }} button="Decide" wrong={empty}>
				<Field name="subject" label="Subject" value={fields.subject} placeholder="user:anne" />
				<Field name="resource" label="Resource" value={fields.resource} placeholder="document:budget" />
				<Field name="action" label="Action" value={fields.action} placeholder="read" />
				{!own && <Field name="revision" label="Revision of the policies" value={fields.revision} placeholder={`now: ${domain.revision}`} />}
				<div class="wide"><Field name="request" label="Or a whole request, in XACML's JSON or XML" value={fields.request} rows={fields.request ? 8 : 2} placeholder='{"Request": {"AccessSubject": {"Attribute": [{"AttributeId": "role", "Value": "doctor"}]}}}' /></div>
			</ViewForm>
			{request !== "" && !fields.request && <p class="soft"><a href={link(store, "policies", { ...fields, subject: "", resource: "", action: "", request, show: shown, at })}>Edit this request</a> to add other attributes.</p>}
			<section aria-label="Decision"><Waiting of={answer} /><Trouble error={answer.error} />{x && <Answer x={x} />}</section>
			{x && x.trace.length > 1 && <nav class="tabs" aria-label="Decisions of the request">{x.trace.map((_, i) => <button key={i} type="button" aria-pressed={i === which} onClick={() => setWhich(i)}>Decision {i + 1}</button>)}</nav>}
			<div class="beside">
				<section aria-label="The tree of policies">
					<h2>{trace ? "How it was decided" : "The tree"}</h2>
					<Waiting of={tree} /><Trouble error={tree.error} />
					{tree.value && <Tree tree={tree.value} trace={trace} href={(show, line) => link(store, "policies", { ...fields, show, line, at })} />}
					{x?.cut && <p class="soft">The trace is too long: further steps are left out.</p>}
				</section>
				<Text route={route} name={shown} revision={decided} />
			</div>
			<Tests store={store} />
		</>
	);
}

const tones: Record<string, string> = { Permit: "true", Deny: "false", Indeterminate: "unknown", NotApplicable: "unknown" };

function Answer({ x }: { x: Explained }) {
	return (
		<>
			{x.Response.map((r, i) => (
				<div key={i} class={`verdict ${tones[r.Decision] ?? "unknown"}`} role="status">
					<strong>{r.Decision}</strong> <span class="soft">policies of revision {x.revision}</span>
					{r.Status?.StatusMessage && <span><Name text={r.Status.StatusMessage} /></span>}
					{([["obligation", r.Obligations], ["advice", r.AssociatedAdvice]] as const).flatMap(([what, list]) => (list ?? []).map((d) => (
						<span key={`${what} ${d.Id}`}>{what} <Name text={`${d.Id}${(d.AttributeAssignment ?? []).map((a) => ` ${a.AttributeId} = ${JSON.stringify(a.Value)}`).join(",")}`} /></span>
					)))}
				</div>
			))}
		</>
	);
}

/** Text shows the text of a policy, with the line that the view names. */
function Text({ route, name, revision }: { route: Route; name: string; revision: string }) {
	const { version } = useSession();
	const text = useLoaded((s) => policies.text(route.store, name, revision, s), [route.store, name, revision], version);
	const line = Number(route.params.get("line") ?? 0);
	return (
		<section aria-label="The text of a policy">
			<h2>{name === "" ? "The root" : <Name text={name} />}</h2>
			<Waiting of={text} /><Trouble error={text.error} />
			{text.value === "" && <p class="soft">There is no such policy{revision && " at this revision"}.</p>}
			{text.value && (
				<div class="scroll source" tabIndex={0} role="region" aria-label={`Text of ${name || "the root"}`}>
					<ol>{text.value.replace(/\n$/, "").split("\n").map((l, i) => <li key={i} class={i + 1 === line ? "current" : ""} aria-current={i + 1 === line ? "true" : undefined}><code>{visible(l.replaceAll("\t", "    "))}</code></li>)}</ol>
				</div>
			)}
		</section>
	);
}
