// The slider over the log, on every page of a store. Whoever looks at the past sees it on all of them.
import { useEffect, useState } from "preact/hooks";
import { api } from "./api";
import { useLoaded } from "./load";
import { Name } from "./names";
import { go, link, type Route } from "./route";
import { when } from "./text";
import { tokenOf } from "./tokens";

export function Timeline({ route, head }: { route: Route; head: number }) {
	const revision = route.params.get("at") ?? "";
	const [moving, setMoving] = useState<number>();
	useEffect(() => setMoving(undefined), [revision, route.store]);
	const to = (at: string) => go(link(route.store, route.page, { ...Object.fromEntries(route.params), cursor: "", at }));
	const entry = useLoaded(async (s) => {
		if (!/^[1-9]\d*$/.test(revision)) return undefined;
		const before = Number(revision) - 1;
		const page = await api.ask(route.store, "changes", { limit: 1, ...(before > 0 && { after: await tokenOf(route.store, before, s) }) }, "", s);
		return page.entries[0];
	}, [route.store, revision]).value;
	const shown = moving ?? (revision === "" ? head : Number(revision));
	return (
		<div class={revision === "" ? "timeline" : "timeline past"}>
			<label>
				<span>Time</span>
				<input type="range" min={0} max={Math.max(head, Number(revision) || 0)} value={shown} aria-valuetext={shown >= head && revision === "" ? "now" : `revision ${shown}`}
					onInput={(e) => setMoving(Number(e.currentTarget.value))}
					onChange={(e) => { const n = Number(e.currentTarget.value); to(n >= head ? "" : String(n)); }} />
			</label>
			{revision === "" && moving === undefined
				? <span>now, revision {head}</span>
				: <span role="status"><strong>The past: revision {shown}</strong> of {head}{entry && moving === undefined && entry.revision === shown && <>, {when(entry.time)}{entry.caller && <> by <Name text={entry.caller} /></>}{entry.reason && <>: <Name text={entry.reason} /></>}</>}</span>}
			{revision !== "" && <button type="button" onClick={() => to("")}>Back to now</button>}
		</div>
	);
}
