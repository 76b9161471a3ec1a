// The client of the XACML door: the policies of a store, and what they decide.
import { request, send, Stream } from "./api";

/** Policy describes a policy of a domain; the root has no name. */
export interface Policy {
	name?: string;
	kind: string;
	id: string;
	version: string;
	language: string;
	revision: number;
}

export interface Policies {
	policies: Policy[];
	root?: Policy;
	next?: string;
	revision: number;
}

export interface Domain {
	store: string;
	revision: number;
	policies: number;
	root?: Policy;
	broken?: string;
}

/** Element is a part of a policy in the JSON form of docs/xacml.md. */
export interface Element {
	policy?: Body;
	policySet?: Body;
	policyReference?: { id: string };
	policySetReference?: { id: string };
}

export interface Body {
	id: string;
	version: string;
	algorithm: string;
	description?: string;
	rules?: { id: string; effect: string; description?: string }[];
	children?: Element[];
}

/** Step is the evaluation of a policy set, a policy or a rule. */
export interface Step {
	kind: string;
	id: string;
	version?: string;
	policy?: string;
	line?: number;
	target: string;
	decision: string;
	decides?: boolean;
	status?: string;
	missing?: { category: string; id: string; dataType: string; issuer?: string }[];
	skipped?: number;
	steps?: Step[];
}

interface Duty {
	Id: string;
	AttributeAssignment?: { AttributeId: string; Value: unknown }[];
}

export interface Explained {
	Response: { Decision: string; Status?: { StatusMessage?: string; StatusCode?: { Value: string } }; Obligations?: Duty[]; AssociatedAdvice?: Duty[] }[];
	revision: number;
	trace: Step[];
	cut?: boolean;
}

export interface Source {
	language: string;
	text: string;
}

export interface Change {
	clear?: boolean;
	root?: Source;
	put?: Record<string, Source>;
}

export interface Trial {
	name: string;
	request: unknown;
	response: unknown;
}

export interface Tested {
	passed: number;
	failed: number;
	tests: { name: string; passed: boolean; differences?: string[] }[];
}

const part = encodeURIComponent;
const path = (store: string, rest: string) => `../../stores/${part(store)}/xacml/v3/${rest}`;
const pinned = (revision: string) => (revision === "" ? "" : `?revision=${part(revision)}`);

/** sourcePath returns the path of a policy, or of the root for "", now or as it was at a revision. */
const sourcePath = (store: string, name: string, revision: string) =>
	path(store, (name === "" ? "root" : `policies/${part(name)}`) + (revision === "" ? "" : `/versions/${part(revision)}`));

export const policies = {
	domain: (store: string, signal?: AbortSignal) => send(path(store, "domain"), undefined, "", signal) as Promise<Domain>,
	list: (store: string, revision: string, signal?: AbortSignal) => send(path(store, `policies${pinned(revision)}`), undefined, "", signal) as Promise<Policies>,
	/** element returns a policy in the JSON form. */
	element: (store: string, name: string, revision: string, signal?: AbortSignal) =>
		send(sourcePath(store, name, revision), undefined, "", signal, { Accept: "application/xacml+json" }) as Promise<Element>,
	/** text returns a policy as it was written. */
	text: async (store: string, name: string, revision: string, signal?: AbortSignal) => {
		const response = await request(sourcePath(store, name, revision), undefined, "", signal, { Accept: "*/*" });
		return response.ok ? response.text() : "";
	},
	/** explain decides a request in JSON or XML, with its trace. */
	explain: (store: string, text: string, revision: string, signal?: AbortSignal) =>
		send(path(store, `explain${pinned(revision)}`), new Stream(text), "", signal, { "Content-Type": text.trimStart().startsWith("<") ? "application/xacml+xml" : "application/xacml+json" }) as Promise<Explained>,
	test: (store: string, tests: Trial[], change: Change | undefined, signal?: AbortSignal) => send(path(store, "test"), { tests, ...(change && { change }) }, "", signal) as Promise<Tested>,
	change: (store: string, change: Change, reason: string) => send(path(store, "policies"), change, reason) as Promise<{ revision: number }>,
};

const ids = { subject: "urn:oasis:names:tc:xacml:1.0:subject:subject-id", resource: "urn:oasis:names:tc:xacml:1.0:resource:resource-id", action: "urn:oasis:names:tc:xacml:1.0:action:action-id" };

/** requestOf returns a request with the standard ids of a subject, a resource and an action; "" is none. */
export function requestOf(subject: string, resource: string, action: string): string {
	const category = (id: string, value: string) => (value === "" ? undefined : { Attribute: [{ AttributeId: id, Value: value }] });
	return JSON.stringify({ Request: { AccessSubject: category(ids.subject, subject), Resource: category(ids.resource, resource), Action: category(ids.action, action) } }, null, 2);
}

/** casesMax bounds the test cases of one choice of files. */
const casesMax = 1000;

export interface Case {
	folder: string;
	change: Change | undefined;
	tests: Trial[];
	/** alone are requests without a response, and noPolicy is true for policies without a request. */
	alone: string[];
}

const languages: Record<string, string> = { xml: "xml", json: "json", alfa: "text" };

/**
 * casesOf returns the test cases in files, as the command "ostiary xacml test" finds them: a folder
 * with Policy.* or a folder Policies, and pairs of *Request.* and *Response.*. Without a policy, the
 * requests are for the policies in force. It fails for a file that is no JSON.
 */
export async function casesOf(files: { path: string; file: File }[]): Promise<Case[]> {
	const cases = new Map<string, Case>(), texts = new Map<string, string>();
	for (const { path, file } of files) texts.set(path, await file.text());
	const at = (folder: string) => {
		if (!cases.has(folder)) {
			if (cases.size === casesMax) throw new Error(`more than ${casesMax} test cases`);
			cases.set(folder, { folder, change: undefined, tests: [], alone: [] });
		}
		return cases.get(folder)!;
	};
	const message = (path: string) => {
		const text = texts.get(path)!;
		if (path.endsWith(".xml")) return text;
		try {
			return JSON.parse(text) as unknown;
		} catch (e) {
			throw new Error(`${path}: ${(e as Error).message}`);
		}
	};
	for (const path of [...texts.keys()].sort()) {
		const slash = path.lastIndexOf("/"), folder = slash < 0 ? "" : path.slice(0, slash), file = path.slice(slash + 1);
		const dot = file.lastIndexOf("."), name = file.slice(0, dot), language = languages[file.slice(dot + 1)];
		if (!language) continue;
		const below = /^(?:(.*)\/)?Policies$/.exec(folder);
		if (below || name === "Policy") {
			const one = at(below ? below[1] ?? "" : folder), source = { language, text: texts.get(path)! };
			one.change ??= { clear: true, put: {} };
			if (name === "Policy") one.change.root = source;
			else one.change.put![name] = source;
		} else if (name.endsWith("Request") && language !== "text") {
			const found = [".xml", ".json"].map((end) => path.slice(0, slash + 1) + name.replace(/Request$/, "Response") + end).filter((p) => texts.has(p));
			const response = found.find((p) => p.endsWith(file.slice(dot))) ?? found[0];
			if (response) at(folder).tests.push({ name: file, request: message(path), response: message(response) });
			else at(folder).alone.push(file);
		}
	}
	return [...cases.values()];
}
