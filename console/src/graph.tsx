// A picture of a graph: positions by dagre, and nodes that are text and links, so that a
// keyboard, a screen reader and a test can read them.
import { Graph as Layout, layout } from "@dagrejs/dagre";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { shorten, visible } from "./names";

export interface Row {
	text: string;
	href?: string;
}

export interface Node {
	id: string;
	title: string;
	rows?: Row[];
	/** tone is the class of the node: true, false, unknown, blocks, type or subject. */
	tone: string;
	mark?: string;
	href?: string;
}

export interface Edge {
	from: string;
	to: string;
	text: string;
	tone: string;
	href?: string;
}

/** zoomRead is the smallest size of a picture that can be read. */
const zoomRead = 0.6;

/** nodesMax bounds what is drawn: more cannot be read. */
export const nodesMax = 500;

/** hubMax is the number of edges into a node that are laid out. Hundreds of edges into one node take the layout seconds: the others are straight lines. */
const hubMax = 100;

const charWidth = 8, rowHeight = 20, textMax = 56;
const width = (text: string) => Math.min([...visible(text)].length, textMax) * charWidth;

function place(nodes: Node[], edges: Edge[]) {
	const start = performance.now();
	const g = new Layout({ multigraph: true });
	g.setGraph({ nodesep: 24, ranksep: 48, marginx: 28, marginy: 12 });
	g.setDefaultEdgeLabel(() => ({}));
	for (const n of nodes) {
		const widest = Math.max(width((n.mark ?? "") + " " + n.title), ...(n.rows ?? []).map((r) => width(r.text)));
		g.setNode(n.id, { width: widest + 24, height: 32 + (n.rows?.length ?? 0) * rowHeight });
	}
	const into = new Map<string, number>();
	edges.forEach((e, i) => {
		const n = (into.get(e.to) ?? 0) + 1;
		into.set(e.to, n);
		if (e.from !== e.to && n <= hubMax) g.setEdge(e.from, e.to, { width: width(e.text), height: e.text ? 18 : 0, labelpos: "c" }, String(i));
	});
	layout(g);
	performance.measure("layout", { start }); // for the tools of a browser
	return g;
}

const line = (points: { x: number; y: number }[]) => points.map((p, i) => `${i ? "L" : "M"}${p.x.toFixed(1)} ${p.y.toFixed(1)}`).join("");

function Label({ x, y, text, href, class: name, anchor }: { x: number; y: number; text: string; href?: string | undefined; class: string; anchor?: "start" | "middle" }) {
	const label = <text x={x} y={y} class={name} text-anchor={anchor ?? "middle"} dominant-baseline="central"><title>{visible(text)}</title>{shorten(text, textMax)}</text>;
	return href ? <a href={href}>{label}</a> : label;
}

/** Picture draws nodes and edges. name is what it shows, for screen readers. */
export function Picture({ nodes, edges, name }: { nodes: Node[]; edges: Edge[]; name: string }) {
	const [zoom, setZoom] = useState(1), frame = useRef<HTMLDivElement | null>(null);
	const g = useMemo(() => (nodes.length > nodesMax || nodes.length === 0 ? null : place(nodes, edges)), [nodes, edges]);
	useLayoutEffect(() => { // so that the picture fits, as long as it can be read
		if (g && frame.current) setZoom(Math.max(zoomRead, Math.min(1, (frame.current.clientWidth - 16) / (g.graph().width ?? 1))));
	}, [g]);
	if (nodes.length === 0) return null;
	if (!g) return <p class="soft">The picture has {nodes.length} nodes, and at most {nodesMax} are drawn.</p>;
	const size = g.graph() as { width?: number; height?: number };
	const w = size.width ?? 0, h = size.height ?? 0;
	const names = g.edges();
	return (
		<figure class="picture">
			<div class="zoom" role="group" aria-label="Size of the picture">
				<button type="button" aria-label="Smaller" onClick={() => setZoom(Math.max(0.25, zoom / 1.25))}>−</button>
				<button type="button" aria-label="Larger" onClick={() => setZoom(Math.min(4, zoom * 1.25))}>+</button>
			</div>
			<div class="scroll" ref={frame} tabIndex={0} role="region" aria-label={name}>
				<svg width={w * zoom} height={h * zoom} viewBox={`0 0 ${w} ${h}`} role="group" aria-label={name}>
					<defs>
						<marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path class="head" d="M0 0L8 4L0 8z" /></marker>
					</defs>
					{edges.map((e, i) => {
						if (e.from !== e.to) {
							if (g.hasEdge(e.from, e.to, String(i))) return null;
							const a = g.node(e.from) as { x: number; y: number; height: number }, b = g.node(e.to) as { x: number; y: number; height: number };
							return <g key={`straight ${i}`} class={`edge ${e.tone}`}><title>{visible(e.text)}</title><path d={line([{ x: a.x, y: a.y + a.height / 2 }, { x: b.x, y: b.y - b.height / 2 }])} marker-end="url(#arrow)" /></g>;
						}
						const at = g.node(e.from) as { x: number; y: number; width: number }, right = at.x + at.width / 2;
						return <g key={`loop ${i}`} class={`edge ${e.tone}`}><title>{visible(e.text)}</title><path d={`M${right} ${at.y - 8}c20 -6 20 22 2 16`} marker-end="url(#arrow)" /></g>;
					})}
					{names.map((n) => {
						const e = edges[Number(n.name)]!, at = g.edge(n) as unknown as { points: { x: number; y: number }[]; x?: number; y?: number };
						return (
							<g key={n.name} class={`edge ${e.tone}`}>
								<path d={line(at.points)} marker-end="url(#arrow)" />
								{e.text && at.x !== undefined && <Label x={at.x} y={at.y!} text={e.text} href={e.href} class="label" />}
							</g>
						);
					})}
					{nodes.map((n) => {
						const at = g.node(n.id) as { x: number; y: number; width: number; height: number }, top = at.y - at.height / 2, left = at.x - at.width / 2;
						return (
							<g key={n.id} class={`node ${n.tone}`}>
								<rect x={left} y={top} width={at.width} height={at.height} rx={8} />
								<Label x={at.x} y={top + 16} text={n.mark ? `${n.mark} ${n.title}` : n.title} href={n.href} class="title" />
								{n.rows?.map((r, i) => <Label key={i} x={left + 12} y={top + 36 + i * rowHeight} text={r.text} href={r.href} class="row" anchor="start" />)}
							</g>
						);
					})}
				</svg>
			</div>
		</figure>
	);
}
