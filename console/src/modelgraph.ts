// The types and relations of a model as a graph: each type is a node with its relations, and an
// edge leads to each type that its tuples may name.
import type { Model, Rewrite } from "./api";
import type { Edge, Node } from "./graph";

/** ops are the operators of a rewrite, by their numbers in the model's JSON. */
const ops = { direct: 1, computed: 2, arrow: 3, union: 4, intersection: 5, exclusion: 6 };

/** rewriteText returns a rewrite as OpenFGA's language writes it. */
export function rewriteText(r: Rewrite, direct: string): string {
	const below = (r.children ?? []).map((c) => (c.children && c.op !== ops.arrow ? `(${rewriteText(c, direct)})` : rewriteText(c, direct)));
	switch (r.op) {
		case ops.direct: return direct;
		case ops.computed: return r.relation ?? "";
		case ops.arrow: return `${below[0] ?? ""} from ${r.relation ?? ""}`;
		case ops.union: return below.join(" or ");
		case ops.intersection: return below.join(" and ");
		case ops.exclusion: return below.join(" but not ");
		default: return "…";
	}
}

/** graphOf returns the graph of a model. */
export function graphOf(model: Model): { nodes: Node[]; edges: Edge[] } {
	const types = model.types ?? [], known = new Set(types.map((t) => t.name));
	const edges = new Map<string, Edge>();
	const nodes = types.map((t): Node => ({
		id: t.name, title: t.name, tone: "type",
		rows: (t.relations ?? []).map((r) => {
			const direct = (r.subjects ?? []).map((s) => {
				const kind = s.type + (s.relation ? `#${s.relation}` : "") + (s.wildcard ? ":*" : "");
				const id = `${t.name} ${s.type}`, edge = edges.get(id);
				if (!edge && known.has(s.type)) edges.set(id, { from: t.name, to: s.type, text: r.name, tone: "plain" });
				else if (edge && !edge.text.split(", ").includes(r.name)) edge.text += `, ${r.name}`;
				return s.condition ? `${kind} with ${s.condition}` : kind;
			});
			return { text: `${r.name}: ${rewriteText(r.rewrite, `[${direct.join(", ")}]`)}` };
		}),
	}));
	return { nodes, edges: [...edges.values()] };
}
