// Streams of the API: server-sent events, read by fetch, because they need the header with the key.
import { useEffect, useRef, useState } from "preact/hooks";
import { Failure, request } from "./api";
import { useSession } from "./session";

/** Event is one event of a stream. Its id is the token from which the stream continues after it. */
interface Event {
	id: string;
	name: string;
	data: any;
}

/** parse returns the event of a block of lines, or undefined if they are a comment. */
function parse(block: string): Event | undefined {
	const event = { id: "", name: "", data: "" };
	for (const line of block.split("\n")) {
		const [name = "", value = ""] = line.split(/: ?(.*)/s);
		if (name === "id") event.id = value;
		if (name === "event") event.name = value;
		if (name === "data") event.data += value;
	}
	return event.name === "" ? undefined : { ...event, data: JSON.parse(event.data) };
}

/** read calls opened when the stream begins, and on with each event, until the stream ends. */
async function read(path: string, last: string, signal: AbortSignal, opened: () => void, on: (event: Event) => void): Promise<void> {
	const response = await request(path, undefined, "", signal, { Accept: "text/event-stream", ...(last && { "Last-Event-ID": last }) });
	if (!response.ok) {
		const error = await response.json().catch(() => ({}));
		throw new Failure(response.status, String(error.code ?? ""), String(error.message ?? `status ${response.status}`));
	}
	opened();
	const chunks = response.body!.pipeThrough(new TextDecoderStream()).getReader();
	for (let text = ""; ;) {
		const { value, done } = await chunks.read();
		if (done) return;
		const blocks = (text + value).split("\n\n");
		text = blocks.pop()!;
		for (const event of blocks.map(parse)) if (event) on(event);
	}
}

/** keptMax is how many updates a page keeps; older ones are left out. */
const keptMax = 500;

/** retryMax is the longest wait before a lost stream is opened again, in seconds. */
const retryMax = 30;

export type StreamState = "connecting" | "watching" | "waiting" | "paused" | "hidden" | "ended";

/** Updates are what a stream has sent, the newest first. gap is why some are missing between, and from is the token where it began. */
export interface Updates<T> {
	list: T[];
	state: StreamState;
	error?: Failure;
	gap?: string;
}

/**
 * useStream watches a path, from the token that begin returns. It opens the stream again where it
 * was after the connection is lost, and closes it while the tab is hidden or paused: then nobody looks.
 */
export function useStream<T>(path: string, begin: (signal: AbortSignal) => Promise<string>, paused: boolean): Updates<T> {
	const { refused } = useSession();
	const [updates, set] = useState<Updates<T>>({ list: [], state: "connecting" });
	const [hidden, setHidden] = useState(document.hidden);
	const last = useRef(""), of = useRef(path);
	useEffect(() => {
		const follow = () => setHidden(document.hidden);
		document.addEventListener("visibilitychange", follow);
		return () => document.removeEventListener("visibilitychange", follow);
	}, []);
	useEffect(() => {
		if (of.current !== path) {
			of.current = path;
			last.current = "";
			set({ list: [], state: "connecting" });
		}
		const state = (state: StreamState, error?: Failure) => set(({ error: _, ...u }) => ({ ...u, state, ...(error && { error }) }));
		if (path === "" || paused || hidden) {
			state(hidden ? "hidden" : "paused");
			return undefined;
		}
		const stop = new AbortController();
		const watch = async () => {
			let wait = 1;
			const opened = () => { wait = 1; state("watching"); };
			const on = (e: Event) => {
				if (e.name === "error") {
					if (e.data.resume) {
						last.current = e.data.resume;
						set((u) => ({ ...u, gap: e.data.message }));
					}
					throw new Failure(0, String(e.data.code ?? ""), String(e.data.message ?? "the stream has failed"));
				}
				if (e.id) last.current = e.id;
				set((u) => ({ ...u, list: [e.data as T, ...u.list].slice(0, keptMax) }));
			};
			for (;;) {
				let error = new Failure(0, "", "the server has ended the stream");
				try {
					if (last.current === "") last.current = await begin(stop.signal);
					await read(path, last.current, stop.signal, opened, on);
				} catch (e) {
					if (stop.signal.aborted) return;
					if (e instanceof Failure) error = e;
					else error = new Failure(0, "", `the connection is lost: ${(e as Error).message}`);
				}
				if (stop.signal.aborted) return;
				if (error.status === 401) {
					refused(error);
					return;
				}
				if (error.status >= 400 && error.status < 500 && error.status !== 429) {
					state("ended", error);
					return;
				}
				state("waiting", error);
				await new Promise((resolve) => setTimeout(resolve, wait * 1000));
				if (stop.signal.aborted) return;
				wait = Math.min(2 * wait, retryMax);
			}
		};
		state("connecting");
		void watch();
		return () => stop.abort();
	}, [path, paused, hidden]);
	return updates;
}
