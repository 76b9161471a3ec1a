// Every view has a URL. It is in the fragment, which a browser does not send to the server, so
// names of objects and subjects are in no log of it.
import { useEffect, useState } from "preact/hooks";

export type Page = "stores" | "model" | "tuples" | "ask" | "time" | "what-if";
const pages: readonly string[] = ["model", "tuples", "ask", "time", "what-if"];

export interface Route {
	page: Page;
	store: string; // "" on the page stores
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
		return { page: (pages.includes(page) ? page : "ask") as Page, store: decode(store), params };
	}
	return { page: "stores", store: "", params };
}

/** link returns the fragment of a view. Parameters with the value "" are left out. */
export function link(store: string, page: Page, params: Record<string, string> = {}): string {
	const query = new URLSearchParams(Object.entries(params).filter(([, v]) => v !== "")).toString();
	const path = page === "stores" ? "#/" : `#/store/${encodeURIComponent(store)}/${page}`;
	return query ? `${path}?${query}` : path;
}

export function go(fragment: string) {
	location.hash = fragment;
}

/** useRoute returns the view that the address names, and follows it. */
export function useRoute(): Route {
	const [fragment, set] = useState(location.hash);
	useEffect(() => {
		const follow = () => set(location.hash);
		addEventListener("hashchange", follow);
		return () => removeEventListener("hashchange", follow);
	}, []);
	return parse(fragment);
}
