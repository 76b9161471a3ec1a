// The tree of the policies of a store, with the steps of a decision painted on it.
import { useLoaded } from "./load";
import { Name } from "./names";
import { policies, type Body, type Element, type Policies, type Step } from "./policies";

/** Node is a policy set, a policy, a rule, or a reference that is not followed. */
export interface Node {
	kind: string;
	id: string;
	name: string; // of the policy that has it; "" is the root
	about: string;
	children: Node[];
	/** left is how many children are left out. */
	left: number;
}

const childrenMax = 200, followedMax = 50;

/** useTree loads the tree below the root, and follows at most followedMax references. */
export function useTree(store: string, revision: string, version: number) {
	return useLoaded(async (s) => {
		const all = await policies.list(store, revision, s);
		if (!all.root) return undefined;
		let followed = 0;
		const byID = new Map((all.policies as Policies["policies"]).map((p) => [`${p.kind} ${p.id}`, p]));
		const load = (name: string) => policies.element(store, name, revision, s);
		const node = async (e: Element, name: string, path: string[]): Promise<Node> => {
			const body = e.policySet ?? e.policy;
			if (body) return bodyNode(e.policySet ? "policy set" : "policy", body, name, path);
			const kind = e.policySetReference ? "policy set" : "policy", id = (e.policySetReference ?? e.policyReference)!.id;
			const at = byID.get(`${kind} ${id}`);
			if (!at?.name || followed === followedMax || path.includes(at.name)) return { kind, id, name, about: at ? "a reference, not followed here" : "a reference", children: [], left: 0 };
			followed++;
			return node(await load(at.name), at.name, [...path, at.name]);
		};
		const bodyNode = async (kind: string, body: Body, name: string, path: string[]): Promise<Node> => {
			const children: Node[] = (body.rules ?? []).slice(0, childrenMax).map((r) => ({ kind: "rule", id: r.id, name, about: [r.effect, r.description].filter(Boolean).join(": "), children: [], left: 0 }));
			for (const c of (body.children ?? []).slice(0, childrenMax)) children.push(await node(c, name, path));
			const count = (body.rules?.length ?? 0) + (body.children?.length ?? 0);
			return { kind, id: body.id, name, about: [body.algorithm.replace(/^.*:/, ""), body.description].filter(Boolean).join(": "), children, left: count - children.length };
		};
		return node(await load(""), "", []);
	}, [store, revision], version);
}

interface TreeProps {
	tree: Node;
	trace: Step | undefined;
	/** href returns the view with the text of a policy, at a line. */
	href: (policy: string, line: string) => string;
}

export function Tree({ tree, trace, href }: TreeProps) {
	return <ul class="tree"><Branch node={tree} step={trace} traced={trace !== undefined} deciding={trace !== undefined} href={href} /></ul>;
}

const tones: Record<string, string> = { Permit: "true", Deny: "false", NotApplicable: "none" };
const marks: Record<string, string> = { Permit: "✓", Deny: "✗", NotApplicable: "–" };

/** match returns the step of each child, and the steps of none of them. */
function match(children: Node[], steps: Step[]): { of: (Step | undefined)[]; rest: Step[] } {
	const rest = [...steps];
	const of = children.map((c) => {
		const i = rest.findIndex((s) => s.id === c.id && s.kind.replace("policySet", "policy set") === c.kind);
		return i < 0 ? undefined : rest.splice(i, 1)[0];
	});
	return { of, rest };
}

function Branch({ node, step, traced, deciding, href }: { node: Node; step: Step | undefined; traced: boolean; deciding: boolean; href: TreeProps["href"] }) {
	const { of, rest } = match(node.children, step?.steps ?? []);
	return (
		<li class={deciding ? "deciding" : ""}>
			<Line kind={node.kind} id={node.id} about={node.about} step={step} traced={traced} deciding={deciding} href={href(node.name, step?.line ? String(step.line) : "")} />
			{(node.children.length > 0 || rest.length > 0) && (
				<ul>
					{node.children.map((c, i) => <Branch key={i} node={c} step={of[i]} traced={traced} deciding={deciding && !!of[i]?.decides} href={href} />)}
					{rest.map((s, i) => <Below key={`rest ${i}`} step={s} deciding={deciding && !!s.decides} href={href} />)}
				</ul>
			)}
			{node.left > 0 && <p class="soft">and {node.left.toLocaleString("en")} further ones</p>}
		</li>
	);
}

/** Below shows steps whose policies are not in the tree, because they were not followed. */
function Below({ step, deciding, href }: { step: Step; deciding: boolean; href: TreeProps["href"] }) {
	return (
		<li class={deciding ? "deciding" : ""}>
			<Line kind={step.kind} id={step.id} about="" step={step} traced deciding={deciding} href={href(step.policy === "root" ? "" : step.policy ?? "", String(step.line ?? ""))} />
			{step.steps && step.steps.length > 0 && <ul>{step.steps.map((s, i) => <Below key={i} step={s} deciding={deciding && !!s.decides} href={href} />)}</ul>}
		</li>
	);
}

function Line({ kind, id, about, step, traced, deciding, href }: { kind: string; id: string; about: string; step: Step | undefined; traced: boolean; deciding: boolean; href: string }) {
	const tone = step ? tones[step.decision] ?? "unknown" : "none";
	return (
		<div class={`element ${traced ? tone : ""}`}>
			{traced && <span class="mark" aria-hidden="true">{step ? marks[step.decision] ?? "?" : "·"}</span>}{" "}
			<span class="soft">{kind}</span> <a href={href}><Name text={id} /></a>{" "}
			{step ? <strong>{step.decision}</strong> : traced && <span class="soft">not evaluated</span>}{deciding && step && <span> decides</span>}
			{step && <span class="soft">, target {step.target}</span>}
			{about && <span class="soft"> · <Name text={about} /></span>}
			{step?.status && !(step.steps ?? []).some((s) => s.status === step.status) && <div><Name text={step.status} /></div>}
			{step?.missing?.map((m) => <div key={`${m.category} ${m.id}`}>missing: <Name text={`${m.id} of ${m.category}, type ${m.dataType}`} /></div>)}
			{step && (step.skipped ?? 0) > 0 && <div class="soft">{step.skipped} left out, because their targets cannot match</div>}
		</div>
	);
}
