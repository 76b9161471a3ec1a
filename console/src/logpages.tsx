// Pages of a log of the server, from the newest line back. One request reads a part of the log, so
// a search takes as many as it needs, with its progress in sight, until the user stops it.
import { useEffect, useRef, useState } from "preact/hooks";
import { Failure } from "./api";
import { Trouble } from "./load";
import { useSession } from "./session";
import { count, when } from "./text";

/** Part is the answer to one request. */
interface Part<T> {
	rows: T[];
	next: string;
	searched?: string;
}

/** Found is a line, and the cursor of the request that has it. */
export interface Found<T> {
	row: T;
	cursor: string;
}

export interface LogPages<T> {
	rows: Found<T>[];
	next: string;
	searched: string;
	loading: boolean;
	error?: Failure;
	more: () => void;
	/** scrolled goes on at the end of a list that had enough lines; a search for few waits for the user. */
	scrolled: () => void;
	stop: () => void;
}

/** partsMax bounds the requests of one search; then the user decides whether it goes on. */
const partsMax = 64;

/** useLog reads a log until there are enough lines, and again with other deps. */
export function useLog<T>(load: (cursor: string, signal: AbortSignal) => Promise<Part<T>>, deps: string[], version: number, enough: number): LogPages<T> {
	const { refused } = useSession();
	const empty = { rows: [] as Found<T>[], next: "", searched: "", loading: true };
	const [state, set] = useState<Omit<LogPages<T>, "more" | "scrolled" | "stop">>(empty);
	const running = useRef<AbortController>(undefined);
	const search = async (cursor: string, wanted: number) => {
		running.current?.abort();
		const stop = running.current = new AbortController();
		set(({ error: _, ...s }) => ({ ...s, loading: true }));
		try {
			for (let i = 0, found = 0; i < partsMax; i++) {
				const part = await load(cursor, stop.signal), of = cursor;
				if (stop.signal.aborted) return;
				found += part.rows.length;
				cursor = part.next;
				const done = cursor === "" || found >= wanted || i === partsMax - 1;
				set((s) => ({ rows: [...s.rows, ...part.rows.map((row) => ({ row, cursor: of }))], next: cursor, searched: part.searched ?? s.searched, loading: !done }));
				if (done) return;
			}
		} catch (e) {
			if (stop.signal.aborted) return;
			const error = e instanceof Failure ? e : new Failure(0, "", String(e));
			if (error.status === 401) refused(error);
			set((s) => ({ ...s, loading: false, error }));
		}
	};
	useEffect(() => {
		set(empty);
		void search("", enough);
		return () => running.current?.abort();
	}, [JSON.stringify(deps), version]);
	const more = () => { if (!state.loading && state.next !== "" && !state.error) void search(state.next, enough); };
	return {
		...state,
		more,
		scrolled: () => { if (state.rows.length >= enough) more(); },
		stop: () => { running.current?.abort(); set((s) => ({ ...s, loading: false })); },
	};
}

/** Progress shows how far a search has come, and lets it go on or stop. what is one of the lines. */
export function Progress({ log, what }: { log: LogPages<unknown>; what: string }) {
	return (
		<p role="status" class="live">
			<span>
				{count(log.rows.length, what)}{log.loading ? " so far" : ""}
				{log.next === "" && !log.loading ? ": all that the log has." : log.searched ? `, searched back to ${when(log.searched)}.` : "."}
			</span>
			{log.loading && <><progress aria-label="Searching" /> <button type="button" onClick={log.stop}>Stop</button></>}
			{!log.loading && log.next !== "" && !log.error && <button type="button" onClick={log.more}>Search further back</button>}
		</p>
	);
}

/** LogTrouble shows an error of a log; for a server without the log, what to do. */
export function LogTrouble({ error, what, flag }: { error: Failure | undefined; what: string; flag: string }) {
	if (error?.code !== "not_recorded") return <Trouble error={error} />;
	return (
		<section aria-label="How to keep it">
			<p>This server does not keep {what} in a folder yet. An operator switches it on with one setting:</p>
			<pre><code>ostiary serve {flag}</code></pre>
		</section>
	);
}
