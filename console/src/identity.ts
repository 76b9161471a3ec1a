// The client of the Identity API (Keystone) of the same server. It has callers of its own: users
// with tokens. The token is kept in the storage of the tab, apart from the key.
import { Failure } from "./api";

const base = new URL("../v3/", location.href.split(/[?#]/)[0]!);
const stored = "ostiary.identity";

export interface Ref {
	id: string;
	name?: string;
	domain?: Ref;
}

/** Token is what the API knows about a token. */
export interface Token {
	user: Ref;
	project?: Ref;
	domain?: Ref;
	system?: { all: boolean };
	roles?: Ref[];
	methods: string[];
	issued_at: string;
	expires_at: string;
	audit_ids: string[];
}

export interface Project extends Ref {
	parent_id: string | null;
	domain_id: string | null;
	is_domain?: boolean;
	enabled: boolean;
	description?: string;
}

/** Assignment is an effective role. Its links are the reason. */
export interface Assignment {
	role: Ref;
	user?: Ref;
	scope: { project?: Ref; domain?: Ref; system?: { all: boolean }; "OS-INHERIT:inherited_to"?: string };
	links: { assignment: string; membership?: string; prior_role?: string };
}

export interface Revocation {
	audit_id?: string;
	audit_chain_id?: string;
	user_id?: string;
	"OS-TRUST:trust_id"?: string;
	issued_before: string;
	revoked_at: string;
}

export const identityToken = {
	get: () => sessionStorage.getItem(stored) ?? "",
	set: (text: string) => sessionStorage.setItem(stored, text),
	remove: () => sessionStorage.removeItem(stored),
};

/** ask sends a request with the token of the tab; other is a further token that it is about. */
async function ask(method: string, path: string, signal?: AbortSignal, body?: unknown, other = ""): Promise<{ value: any; token: string }> {
	const headers: Record<string, string> = { Accept: "application/json" };
	if (identityToken.get() && body === undefined) headers["X-Auth-Token"] = identityToken.get();
	if (other) headers["X-Subject-Token"] = other;
	if (body !== undefined) headers["Content-Type"] = "application/json";
	let response: Response, text: string;
	try {
		response = await fetch(new URL(path, base), { method, headers, body: body === undefined ? null : JSON.stringify(body), credentials: "omit", cache: "no-store", redirect: "error", referrerPolicy: "no-referrer", signal: signal ?? null });
		text = await response.text();
	} catch (e) {
		if (signal?.aborted) throw e;
		throw new Failure(0, "", `the server does not answer: ${(e as Error).message}`);
	}
	let value: any;
	try {
		value = text === "" ? undefined : JSON.parse(text);
	} catch {
		value = undefined;
	}
	// A refused token of Identity says nothing about the key: it is no 401 of the session.
	if (!response.ok) throw new Failure(0, `${response.status} ${value?.error?.title ?? ""}`.trim(), String((value?.error?.title && value.error.message) ?? "the Identity API is not there: the server has no door keystone, or it is not set up (ostiary keystone bootstrap)"));
	return { value, token: response.headers.get("X-Subject-Token") ?? "" };
}

/** query returns path with parameters; those without a value are left out. */
function query(path: string, params: Record<string, string>): string {
	const text = new URLSearchParams(Object.entries(params).filter(([, v]) => v !== "")).toString();
	return text ? `${path}?${text}` : path;
}

export const identity = {
	/** there fails with the code 404 if the server has no Identity API, and with 503 if it is not set up. */
	there: (signal: AbortSignal) => ask("GET", "../v3", signal),
	/** signIn exchanges a password for a token of a scope. */
	signIn: async (user: string, domain: string, password: string, passcode: string, scope: unknown) => {
		const who = { user: { name: user, domain: { name: domain }, password } };
		const methods = { methods: passcode ? ["password", "totp"] : ["password"], password: who, ...(passcode && { totp: { user: { name: user, domain: { name: domain }, passcode } } }) };
		const { token } = await ask("POST", "auth/tokens", undefined, { auth: { identity: methods, scope } });
		identityToken.set(token);
	},
	/** token returns what is known about a token. */
	token: async (text: string, signal?: AbortSignal) => (await ask("GET", "auth/tokens", signal, undefined, text)).value.token as Token,
	revoke: (text: string) => ask("DELETE", "auth/tokens", undefined, undefined, text),
	/** projects returns all projects and domains, or, for a user who may not list them, those on which the user has roles. */
	projects: async (signal: AbortSignal): Promise<{ projects: Project[]; all: boolean }> => {
		try {
			const [domains, projects] = await Promise.all([ask("GET", "domains", signal), ask("GET", "projects", signal)]);
			return { projects: [...domains.value.domains.map((d: Project) => ({ ...d, parent_id: null, is_domain: true })), ...projects.value.projects.filter((p: Project) => !p.is_domain)], all: true };
		} catch (e) {
			if (!(e instanceof Failure) || !e.code.startsWith("403")) throw e;
			return { projects: (await ask("GET", "auth/projects", signal)).value.projects, all: false };
		}
	},
	/** find returns the id of the record with an id or a name; a name that several have is an error. */
	find: async (kind: "users" | "projects", text: string, signal: AbortSignal): Promise<string> => {
		if (text === "") return "";
		const found = (await ask("GET", query(kind, { name: text }), signal)).value[kind] as Ref[];
		if (found.length > 1) throw new Failure(0, "", `${found.length} ${kind} are called "${text}": expected the id of one of them: ${found.map((f) => f.id).join(", ")}`);
		return found[0]?.id ?? text;
	},
	/** assignments returns the effective roles of a user, on a project, or both. */
	assignments: async (user: string, project: string, signal: AbortSignal) =>
		(await ask("GET", "role_assignments?effective&include_names" + [["user.id", user], ["scope.project.id", project]].filter(([, v]) => v).map(([k, v]) => `&${k}=${encodeURIComponent(v!)}`).join(""), signal)).value.role_assignments as Assignment[],
	/** nameOf returns the name of a record, or its id if the user may not see it. */
	nameOf: async (kind: "groups" | "roles" | "projects" | "domains", id: string, signal: AbortSignal): Promise<string> => {
		try {
			const { value } = await ask("GET", `${kind}/${encodeURIComponent(id)}`, signal);
			return String(value[kind.slice(0, -1)].name);
		} catch (e) {
			if (signal.aborted) throw e;
			return id;
		}
	},
	revocations: async (signal: AbortSignal) => (await ask("GET", "OS-REVOKE/events", signal)).value.events as Revocation[],
};
