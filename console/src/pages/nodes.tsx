// The nodes that share the log of the server, as the one that answers knows them.
import { useEffect, useState } from "preact/hooks";
import { api, type Node } from "../api";
import { Trouble, useLoaded, Waiting } from "../load";
import { Name } from "../names";
import { when } from "../text";

const seconds = (millis: number) => `${(millis / 1000).toLocaleString("en", { maximumFractionDigits: 1 })} s`;
const places: Record<string, string> = { nodes: "The nodes keep the log themselves.", database: "The log is in a database.", folder: "The log is in the folder of this single node, until it is moved." };

export function Nodes() {
	const [turn, setTurn] = useState(0);
	useEffect(() => {
		const timer = setInterval(() => { if (document.visibilityState === "visible") setTurn((n) => n + 1); }, 5_000);
		return () => clearInterval(timer);
	}, []);
	const me = useLoaded((s) => api.me("", s), []);
	const may = me.value?.administers;
	const nodes = useLoaded(async (s) => (may ? api.nodes(s) : undefined), [may ? "may" : ""], turn);
	const all = nodes.value, self = all?.self;
	return (
		<>
			<h1>Nodes</h1>
			{me.value && !may && <p>The key may not see the nodes: it needs the right admin on all stores.</p>}
			{may !== false && <Waiting of={nodes} />}
			<Trouble error={me.error ?? nodes.error} />
			{all && !self && <p>This is a single server{all.version && <>, version <Name text={all.version} /></>}: it shares its log with no other node. <code>ostiary serve --cluster</code> makes it the first one of several: each has all data and answers, and one of them writes.</p>}
			{all && self && (
				<>
					<p>{places[all.log]} This page is of the node <code>{self.id}</code>, version <Name text={all.version ?? ""} />; it asks again every 5 seconds.</p>
					{self.failure && <p class="trouble" role="alert">This node does not reach the node that writes, or the log: <Name text={self.failure} /></p>}
					<div class="scroll" tabIndex={0} role="region" aria-label="This node">
						<table>
							<thead><tr><th scope="col">Role</th><th scope="col">Writes</th><th scope="col">Answers reads</th><th scope="col">Lag</th><th scope="col">Shows</th><th scope="col">Epoch</th><th scope="col">Log format</th></tr></thead>
							<tbody><tr>
								<td>{self.role}</td>
								<td>{self.acknowledges ? `yes, lease of ${seconds(self.holder_lease_ms)}` : self.holder ? <>node <code>{self.holder}</code></> : "no node is known that does"}</td>
								<td>{self.ready ? `yes, lease of ${seconds(self.read_lease_ms)}` : "no"}</td>
								<td>{self.lag}</td><td>{self.shown}</td><td>{self.epoch}</td><td>{self.log_version}</td>
							</tr></tbody>
						</table>
					</div>
					<h2>Registered nodes</h2>
					{all.failure && <p class="trouble" role="alert">The list cannot be read now: <Name text={all.failure} /></p>}
					{all.nodes.length > 0 && (
						<div class="scroll" tabIndex={0} role="region" aria-label="Registered nodes">
							<table>
								<thead><tr><th scope="col">State</th><th scope="col">Address</th><th scope="col">Zone</th><th scope="col">Log</th><th scope="col">Lag</th><th scope="col">Applied</th><th scope="col">On disk</th><th scope="col">Reads format</th><th scope="col">Start</th><th scope="col">Reported</th><th scope="col">Id</th></tr></thead>
								<tbody>{all.nodes.map((n) => <Row key={n.id} n={n} own={n.id === self.id} />)}</tbody>
							</table>
						</div>
					)}
					<p class="soft">Nodes report every 5 seconds. A node is late after 12 seconds without a report, and gone after 30. On disk is behind as a rule: the log has the rest.</p>
				</>
			)}
		</>
	);
}

function Row({ n, own }: { n: Node; own: boolean }) {
	const good = n.state === "holder" || n.state === "live" || n.state === "joined";
	return (
		<tr class={own ? "current" : ""}>
			<td class={good ? "true" : n.state === "stopped" ? "" : "false"}>{n.state}{own && " (this node)"}</td>
			<td><Name text={n.address} /></td>
			<td>{n.zone ? <Name text={n.zone} /> : "–"}{n.preferred && " (preferred)"}</td>
			<td>{n.log ?? "–"}</td><td>{n.lag}</td><td>{n.applied}</td><td>{n.synced}</td><td>{n.reads}</td><td>{n.start}</td>
			<td>{n.seen ? <>{seconds(Math.round(n.ago_ms / 1000) * 1000)} ago<div class="soft time">{when(n.seen)}</div></> : "never"}</td>
			<td><code>{n.id}</code></td>
		</tr>
	);
}
