// Every view has a URL. It is in the fragment, which a browser does not send to the server, so
// names of objects and subjects are in no log of it.
import { useEffect, useRef, useState } from "preact/hooks";

/** storePages and serverPages are the names of all pages, by the part of their URL, in their order. */
export const storePages = { ask: "Ask", tuples: "Tuples", model: "Model", time: "Time", "what-if": "What if", watch: "Watch", decisions: "Decisions", policies: "Policies" } as const;
export const serverPages = { stores: "Stores", keys: "Keys", identity: "Identity", audit: "Audit", nodes: "Nodes" } as const;

export type Page = keyof typeof storePages | keyof typeof serverPages;

export interface Route {
	page: Page;
	store: string; // "" on a page of the server
	params: URLSearchParams;
}

function decode(text: string): string {
	try {
		return decodeURIComponent(text);
	} catch {
		return text;
	}
}

/** parse returns the view that a fragment names; one that names no view is the list of stores. */
export function parse(fragment: string): Route {
	const [path = "", query = ""] = fragment.replace(/^#/, "").split(/\?(.*)/s);
	const [, kind, store = "", page = ""] = path.split("/");
	const params = new URLSearchParams(query);
	if (!/^\d{1,15}$/.test(params.get("at") ?? "")) params.delete("at"); // what is no revision is now
	if (kind === "store" && store !== "") {
		return { page: (Object.hasOwn(storePages, page) ? page : "ask") as Page, store: decode(store), params };
	}
	return { page: (Object.hasOwn(serverPages, kind ?? "") ? kind : "stores") as Page, store: "", params };
}

/** link returns the fragment of a view. Parameters with the value "" are left out. */
export function link(store: string, page: Page, params: Record<string, string> = {}): string {
	const query = new URLSearchParams(Object.entries(params).filter(([, v]) => v !== "")).toString();
	const path = page === "stores" ? "#/" : Object.hasOwn(serverPages, page) ? `#/${page}` : `#/store/${encodeURIComponent(store)}/${page}`;
	return query ? `${path}?${query}` : path;
}

export function go(fragment: string) {
	location.hash = fragment;
}

/** question is what the user is asked before the page is left; "" is nothing. */
let question = "";

/** useUnsaved asks the user before the page is left, in whatever way, as long as text is not "". */
export function useUnsaved(text: string) {
	useEffect(() => {
		if (text === "") return;
		const ask = (e: BeforeUnloadEvent) => e.preventDefault();
		question = text;
		addEventListener("beforeunload", ask);
		return () => { question = ""; removeEventListener("beforeunload", ask); };
	}, [text]);
}

/** mayLeave reports whether the page can be left, and asks the user if that loses something. */
export function mayLeave(): boolean {
	if (question === "" || confirm(question)) question = "";
	return question === "";
}

/** useRoute returns the view that the address names, and follows it. */
export function useRoute(): Route {
	const [fragment, set] = useState(location.hash);
	const shown = useRef(fragment);
	useEffect(() => {
		const follow = () => {
			const old = parse(shown.current), next = parse(location.hash);
			if ((old.page !== next.page || old.store !== next.store) && !mayLeave()) {
				history.pushState(null, "", shown.current || "#/");
				return;
			}
			shown.current = location.hash;
			set(location.hash);
		};
		addEventListener("hashchange", follow);
		return () => removeEventListener("hashchange", follow);
	}, []);
	return parse(fragment);
}
