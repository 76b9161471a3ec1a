// An explanation as the API gives it, painted as a path over the relation graph, and as a list
// of its steps.
import { useMemo, useState } from "preact/hooks";
import type { Edge, Node } from "./graph";
import { Picture } from "./graph";
import { Name, visible } from "./names";
import { link } from "./route";
import { when } from "./text";

/** Step is a step of the explanation; docs/native.md describes it. */
export interface Step {
	kind: string;
	result: "true" | "false" | "unknown";
	object?: string;
	relation?: string;
	rewrite?: string;
	tuple?: string;
	written?: { revision: number; time: string; caller?: string; reason?: string };
	condition?: { name: string; result: string; values?: unknown; missing?: string[]; error?: string };
	searched?: { subjects: string; count: number; first?: string[] }[];
	steps?: Step[];
	[other: string]: unknown;
}

export const marks = { true: "✓", false: "✗", unknown: "?", blocks: "⊘" } as const;

/** blocker reports whether a step below an exclusion, by its number, is what makes it false. */
function blocker(step: Step, i: number): boolean {
	const below = step.steps ?? [];
	return step.kind === "exclusion" && step.result === "false" && i === below.length - 1 && below[i]?.result === "true";
}

/** parts returns the subject of a step's tuple, and what follows it: its condition and expiry. */
function parts(step: Step): { subject: string; rest: string } {
	const after = (step.tuple ?? "").slice(`${step.object}#${step.relation}@`.length);
	const space = after.indexOf(" ");
	return space < 0 ? { subject: after, rest: "" } : { subject: after.slice(0, space), rest: after.slice(space + 1) };
}

/** tupleLink returns the view of the tuple of a step. */
function tupleLink(step: Step, store: string, revision: string): string {
	return link(store, "tuples", { object: step.object ?? "", relation: step.relation ?? "", subject: parts(step).subject, at: revision });
}

/** missed is what a step that failed has looked at. */
function missed(step: Step): string {
	if (step.kind === "unreachable") return "no tuple of the model leads to the subject";
	const seen = (step.searched ?? []).map((s) => {
		const first = (s.first ?? []).slice(0, 3).join(", ");
		return s.count > 3 ? `${s.count} of ${s.subjects}` : first || `${s.count} of ${s.subjects}`;
	});
	return seen.length > 0 ? `no match among ${seen.join("; ")}` : "no tuple";
}

/**
 * paint returns the graph of an explanation. Each relation of an object is a node, and each tuple
 * an edge. Where nothing was found, a node of the frontier has what was looked at.
 */
export function paint(because: Step, subject: string, store: string, revision: string): { nodes: Node[]; edges: Edge[] } {
	const nodes = new Map<string, Node>(), edges: Edge[] = [];
	const add = (n: Node) => nodes.has(n.id) || nodes.set(n.id, n);
	const connect = (e: Edge) => e.from !== "" && edges.push(e);
	let leaves = 0;

	// walk adds a step below the node from; edge is the tuple on the way to it.
	// Below a step that blocks, what is true is a reason for the denial.
	const walk = (step: Step, from: string, edge: { text: string; tone: string; href?: string }, blocks: boolean) => {
		const below = step.steps ?? [], tone = blocks && step.result === "true" ? "blocks" : step.result, mark = marks[tone];
		if (edge.tone === step.result) edge = { ...edge, tone };
		if (step.kind === "relation" || step.kind === "seen") {
			const id = `${step.object}#${step.relation}`;
			add({ id, title: id, tone, mark });
			connect({ from, to: id, ...edge });
			below.forEach((s) => walk(s, id, { text: "", tone: s.result }, blocks));
		} else if (step.kind === "tuple") {
			const { subject: to, rest } = parts(step);
			const next = { text: rest ? `${step.relation} · ${rest}` : step.relation ?? "", tone, href: tupleLink(step, store, revision) };
			if (below.length === 0) {
				add({ id: to, title: to, tone: to === subject || to.endsWith(":*") ? "subject" : tone });
				connect({ from, to, ...next });
			}
			// A relation that only leads to the next tuple is left out: the node is what the tuple names.
			if (below.some((s) => s.kind !== "relation" && s.kind !== "seen")) {
				add({ id: to, title: to, tone, mark });
				connect({ from, to, ...next });
				below.forEach((s) => walk(s, to, { text: "", tone: s.result }, blocks));
			} else {
				below.forEach((s) => walk(s, from, next, blocks));
			}
		} else if (step.kind === "exclusion" || step.kind === "intersection") {
			below.forEach((s, i) => {
				const blocking = blocker(step, i);
				walk(s, from, { text: step.kind === "intersection" ? "and" : blocking ? "but not: this blocks" : i > 0 ? "but not" : edge.text, tone: blocking ? "blocks" : s.result }, blocking !== blocks);
			});
			if (below.length === 0) leaf(step, from);
		} else if (below.length > 0) {
			below.forEach((s) => walk(s, from, edge, blocks));
		} else {
			leaf(step, from);
		}
	};
	const leaf = (step: Step, from: string) => {
		const id = ` leaf ${leaves++}`;
		const text = step.result === "false" ? missed(step) : step.kind;
		add({ id, title: step.rewrite ?? step.kind, rows: [{ text }], tone: `frontier ${step.result}`, mark: marks[step.result] });
		connect({ from, to: id, text: "", tone: step.result });
	};
	walk(because, "", { text: "", tone: because.result }, false);
	return { nodes: [...nodes.values()], edges };
}

/** rowsMax bounds the list of steps until the user asks for more. */
const rowsMax = 200;

interface Line {
	step: Step;
	depth: number;
	tone: keyof typeof marks;
	words: string; // that follow the step
}

function flatten(step: Step, depth: number, blocks: boolean, words: string, out: Line[]) {
	out.push({ step, depth, tone: blocks && step.result === "true" ? "blocks" : step.result, words });
	(step.steps ?? []).forEach((s, i) => flatten(s, depth + 1, blocker(step, i) !== blocks, blocker(step, i) ? "blocks it" : "", out));
}

function StepText({ step, store, revision }: { step: Step; store: string; revision: string }) {
	if (step.kind === "tuple") {
		const w = step.written;
		return (
			<>
				<a href={tupleLink(step, store, revision)}><Name text={step.tuple ?? ""} /></a>
				{w && <span class="soft"> revision <a href={link(store, "time", { at: String(w.revision) })}>{w.revision}</a>, {when(w.time)}{w.caller && <>, by <Name text={w.caller} /></>}{w.reason && <>: <Name text={w.reason} /></>}</span>}
				{step.condition && <span class="soft"> condition <Name text={step.condition.name} /> is {step.condition.result}{step.condition.missing && <>, missing: <Name text={step.condition.missing.join(", ")} /></>}</span>}
			</>
		);
	}
	if (step.kind === "relation" || step.kind === "seen") return <><Name text={`${step.object}#${step.relation}`} />{step.kind === "seen" && <span class="soft"> as above</span>}</>;
	const nothing = step.result === "false" && !step.steps?.length;
	return <><Name text={step.rewrite ?? step.kind} />{nothing && <span class="soft">: {visible(missed(step))}</span>}</>;
}

/** Why shows an explanation. */
export function Why({ explanation, subject, store, revision }: { explanation: Record<string, any>; subject: string; store: string; revision: string }) {
	const because = explanation["because"] as Step | undefined;
	const [shown, setShown] = useState(rowsMax);
	const painted = useMemo(() => (because ? paint(because, subject, store, revision) : null), [because, subject, store, revision]);
	const steps = useMemo(() => {
		const out: Line[] = [];
		if (because) flatten(because, 0, false, "", out);
		return out;
	}, [because]);
	if (!because || !painted) return <p class="soft">A bound ended the evaluation before there was a reason.</p>;
	const memberships = explanation["memberships"] as { in: string[]; expired?: string[] } | undefined;
	return (
		<>
			<Picture nodes={painted.nodes} edges={painted.edges} name="The path over the relation graph" />
			{memberships && (memberships.in.length === 0
				? <p><Name text={subject} /> is in nothing that could grant this.</p>
				: <p><Name text={subject} /> is in {memberships.in.map((m, i) => <>{i > 0 && ", "}<Name text={m} /></>)}, which does not lead to the object.</p>)}
			<h3>Steps</h3>
			<ol class="steps">
				{steps.slice(0, shown).map(({ step, depth, tone, words }, i) => (
					<li key={i} class={tone} style={{ paddingInlineStart: `${Math.min(depth, 24)}rem` }}>
						<span class="mark" role="img" aria-label={tone === "blocks" ? "true, and blocks" : tone}>{marks[tone]}</span> <StepText step={step} store={store} revision={revision} />{words && <strong> {words}</strong>}
					</li>
				))}
			</ol>
			{steps.length > shown && <button type="button" onClick={() => setShown(shown + 10 * rowsMax)}>Show more of {steps.length} steps</button>}
			{explanation["leftOut"] !== undefined && <p class="soft">{String(explanation["leftOut"])} further steps are left out.</p>}
		</>
	);
}
