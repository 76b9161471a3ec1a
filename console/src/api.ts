// The client of the native API. Its types are generated from the OpenAPI document of the door.
import type { components } from "./openapi";

type S = components["schemas"];
export type Store = S["Store"];
export type Tuple = S["StoredTuple"];
export type Schema = S["Schema"];
export type Entry = S["Entry"];
export type At = S["At"];
export type Filter = S["Filter"];
export type Explanation = S["Explanation"];
export type WhatIfResult = S["WhatIfResult"];
export type CallerKey = S["CallerKey"];
export type Limits = S["Limits"];
export type Node = S["Node"];
export type Differences = S["Differences"];
export type LoggedDecision = S["LoggedDecision"];
export type Question = S["Question"];
export type AuditRecord = S["Record"];

/** Model is the part of a schema's model that the pages draw. */
export interface Model {
	types?: { name: string; relations?: { name: string; rewrite: Rewrite; subjects?: { type: string; relation?: string; wildcard?: boolean; condition?: string }[] }[] }[];
}

export interface Rewrite {
	op: number;
	relation?: string;
	children?: Rewrite[];
}

/** Assertion is one of OpenFGA. */
export interface Assertion {
	tuple_key: { user: string; relation: string; object: string };
	expectation: boolean;
	contextual_tuples?: unknown[];
	context?: Record<string, unknown>;
}

/** Requests are the requests to one store, by the last part of their path. */
interface Requests {
	read: [S["Read"], S["Tuples"]];
	write: [S["Write"], S["WriteResult"]];
	explain: [S["Explain"], S["Explanation"]];
	"list-objects": [S["ListObjects"], S["Objects"]];
	"list-subjects": [S["ListSubjects"], S["Subjects"]];
	entitlements: [S["Entitlements"], S["Entitled"]];
	changes: [S["Changes"], S["Entries"]];
	batch: [S["Batch"], S["Results"]];
	difference: [S["Difference"], S["Differences"]];
	"what-if": [S["WhatIf"], S["WhatIfResult"]];
	decisions: [S["Decisions"], S["LoggedDecisions"]];
	schemas: [S["WriteSchema"], S["Schema"]];
}

/** Failure is an error as the API has it, or one of the connection, with the code "". */
export class Failure extends Error {
	/** tuple is the number of the tuple of an import that is wrong, and read how many it has written. */
	constructor(readonly status: number, readonly code: string, message: string, readonly tuple = 0, readonly read = 0) {
		super(message);
	}
}

const base = new URL("../ostiary/v1/", location.href.split(/[?#]/)[0]!);
const stored = "ostiary.key";

let acceptedKey = "";

/** key is the key of the user, or the token of a provider. It is kept in the storage of the tab until sign-out. */
export const key = {
	get: () => sessionStorage.getItem(stored) ?? "",
	set: (text: string) => sessionStorage.setItem(stored, text),
	remove: () => sessionStorage.removeItem(stored),
	/** accepted reports whether the server has accepted the key since the page was loaded. */
	accepted: () => acceptedKey !== "" && acceptedKey === key.get(),
};

/** bytes returns text as the characters of its bytes in UTF-8, as headers need it. */
function bytes(text: string): string {
	return Array.from(new TextEncoder().encode(text), (b) => String.fromCharCode(b)).join("");
}

/** Stream is a body that is no JSON, but one JSON value on each line. */
export class Stream {
	constructor(readonly text: string) {}
}

/** request sends a request, and returns the response, whatever its status is. */
export async function request(path: string, body?: unknown, reason = "", signal?: AbortSignal, more: Record<string, string> = {}, method = body === undefined ? "GET" : "POST"): Promise<Response> {
	const headers: Record<string, string> = { Accept: "application/json", ...more };
	const secret = key.get();
	if (secret !== "") headers["Authorization"] = "Bearer " + bytes(secret);
	if (reason !== "") headers["Ostiary-Reason"] = bytes(reason);
	if (body !== undefined) headers["Content-Type"] ??= body instanceof Stream ? "application/x-ndjson" : "application/json";
	try {
		return await fetch(new URL(path, base), {
			method, headers, body: body === undefined ? null : body instanceof Stream ? body.text : JSON.stringify(body),
			credentials: "omit", cache: "no-store", redirect: "error", referrerPolicy: "no-referrer", signal: signal ?? null,
		});
	} catch (e) {
		throw lost(e, signal);
	}
}

/** lost returns the failure of a connection that is lost; e itself if the page has ended it. */
function lost(e: unknown, signal: AbortSignal | undefined): unknown {
	return signal?.aborted ? e : new Failure(0, "", `the server does not answer: ${(e as Error).message}`);
}

/** send sends a request, and returns the JSON of the response; it fails with an error of the API. */
export async function send(path: string, body?: unknown, reason = "", signal?: AbortSignal, more: Record<string, string> = {}, method?: string): Promise<unknown> {
	const secret = key.get(), response = await request(path, body, reason, signal, more, method);
	let value: any, text: string;
	try {
		text = await response.text();
	} catch (e) {
		throw lost(e, signal);
	}
	try {
		value = JSON.parse(text);
	} catch {
		throw new Failure(response.status, "", `the server answered ${response.status} without JSON`);
	}
	if (!response.ok) {
		const failed = value.error ?? value;
		throw new Failure(response.status, String(failed.code ?? ""), String(failed.message ?? `status ${response.status}`), Number(failed.tuple ?? 0), Number(failed.read ?? 0));
	}
	acceptedKey = secret;
	return value;
}

/** listeners get each revision of a store that the page learns of. */
const listeners = new Set<(store: string, revision: number) => void>();

/** onRevision calls a function with each revision of a store that the page learns of, until the function that it returns is called. */
export function onRevision(listener: (store: string, revision: number) => void): () => void {
	listeners.add(listener);
	return () => listeners.delete(listener);
}

/** learned passes a revision of a store to the listeners. */
export function learned(store: string, revision: unknown) {
	if (typeof revision === "number") for (const listener of listeners) listener(store, revision);
}

const name = encodeURIComponent;

export const api = {
	stores: (after: string, signal?: AbortSignal) => send(`stores?limit=100&details=true${after && "&after=" + name(after)}`, undefined, "", signal) as Promise<S["Stores"]>,
	store: (id: string, signal?: AbortSignal) => send(`stores/${name(id)}?details=true`, undefined, "", signal) as Promise<Store>,
	/** me returns who the caller is, and its rights on a new store with a name. */
	me: (store: string, signal?: AbortSignal) => send(`me?name=${name(store)}`, undefined, "", signal) as Promise<S["Me"]>,
	keys: (signal?: AbortSignal) => send("keys", undefined, "", signal) as Promise<S["Keys"]>,
	createKey: (key: S["CreateKey"]) => send("keys", key) as Promise<CallerKey>,
	rotateKey: (key: string, keep: number) => send(`keys/${name(key)}/rotate`, { keep_seconds: keep }) as Promise<CallerKey>,
	revokeKey: (key: string) => send(`keys/${name(key)}`, undefined, "", undefined, {}, "DELETE") as Promise<S["RevokedKey"]>,
	limitKey: (key: string, limits: Limits) => send(`keys/${name(key)}/limits`, limits, "", undefined, {}, "PUT"),
	explainKey: (key: string, question: S["ExplainKey"], signal?: AbortSignal) => send(`keys/${name(key)}/explain`, { ...question, text: true }, "", signal) as Promise<S["KeyExplanation"]>,
	nodes: (signal?: AbortSignal) => send("nodes", undefined, "", signal) as Promise<S["Nodes"]>,
	create: (store: string) => send("stores", { name: store }) as Promise<Store>,
	/** add writes tuples as one entry of the log. */
	add: (store: string, tuples: Tuple[], duplicates: string, reason: string) => {
		const lines = [...tuples.map((tuple) => JSON.stringify({ tuple })), JSON.stringify({ end: { tuples: tuples.length, attributes: 0 } })];
		return send(`stores/${name(store)}/import?entry=${tuples.length}&on_duplicate=${duplicates}`, new Stream(lines.join("\n") + "\n"), reason) as Promise<S["Imported"]>;
	},
	/** assertions returns those of OpenFGA for a model; it fails if the server or the key has no such door. */
	assertions: (store: string, schema: string) => send(`../../stores/${name(store)}/assertions/${name(schema)}`) as Promise<{ assertions?: Assertion[] }>,
	schemas: (store: string, signal?: AbortSignal) => send(`stores/${name(store)}/schemas`, undefined, "", signal) as Promise<S["Schemas"]>,
	schema: (store: string, id: string, dialect: string, signal?: AbortSignal) =>
		send(`stores/${name(store)}/schemas/${name(id)}${dialect && "?dialect=" + name(dialect)}`, undefined, "", signal) as Promise<Schema>,
	/** audit returns a page of the audit log of the node. */
	audit: (query: S["Audit"], signal?: AbortSignal) => send("audit", query, "", signal) as Promise<S["Records"]>,
	/** ask sends a request to a store. */
	ask: async <K extends keyof Requests>(store: string, request: K, body: Requests[K][0], reason = "", signal?: AbortSignal) => {
		const answer = await send(`stores/${name(store)}/${request}`, body, reason, signal) as Requests[K][1];
		learned(store, (answer as { revision?: number }).revision);
		return answer;
	},
};

/** at returns the revision that a parameter of the view names; "" is now. */
export function at(revision: string): { at?: At } {
	return /^\d+$/.test(revision) ? { at: { revision: Number(revision) } } : {};
}
