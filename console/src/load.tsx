// What a page waits for: its answer, its error, or neither yet.
import { useEffect, useState } from "preact/hooks";
import { Failure } from "./api";
import { visible } from "./names";
import { useSession } from "./session";

export interface Loaded<T> {
	value?: T;
	error?: Failure;
	loading: boolean;
}

/**
 * useLoaded calls load when the view opens, and again when deps or version change. An answer
 * belongs to its deps: with others, there is none until the next one arrives. It stays while only
 * the version is another one.
 */
export function useLoaded<T>(load: (signal: AbortSignal) => Promise<T>, deps: (string | number | null)[], version = 0): Loaded<T> {
	const [state, set] = useState<Loaded<T> & { of: string }>({ loading: true, of: "" });
	const of = JSON.stringify(deps);
	const { refused } = useSession();
	useEffect(() => {
		const stop = new AbortController();
		set((s) => (s.of === of ? { ...s, loading: true } : { loading: true, of }));
		load(stop.signal).then(
			(value) => stop.signal.aborted || set({ value, loading: false, of }),
			(error) => {
				if (stop.signal.aborted) return;
				const failure = error instanceof Failure ? error : new Failure(0, "", String(error));
				if (failure.status === 401) refused(failure);
				set({ error: failure, loading: false, of });
			},
		);
		return () => stop.abort();
	}, [of, version]);
	return state.of === of ? state : { loading: true };
}

/** Trouble shows an error of the API as it is. */
export function Trouble({ error }: { error: Failure | undefined }) {
	if (!error) return null;
	return (
		<p class="trouble" role="alert">
			{error.code && <code>{error.code}</code>} {visible(error.message)}
		</p>
	);
}

/** Waiting is shown until the first answer arrives. */
export function Waiting({ of }: { of: Loaded<unknown> }) {
	return of.loading && of.value === undefined ? <p class="soft" role="status">Loading…</p> : null;
}
