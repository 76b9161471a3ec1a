// Signing in at a provider of OpenID Connect: the authorization code flow with PKCE, as a public
// client. The page has no secret; the token goes into the storage of the tab, as a key does.

/** Provider is a provider that the server trusts. Without endpoints, the server could not read its configuration. */
export interface Provider {
	issuer: string;
	client_id: string;
	scope: string;
	authorization_endpoint?: string;
	token_endpoint?: string;
}

/** Signed is what the tab knows about its token, for its user. The API decides about the token alone. */
export interface Signed {
	issuer: string;
	who: string;
	expires: number; // in milliseconds since 1970; 0 is not known
	audience: string;
	kind: "access token" | "ID token";
}

/** Flow is a sign-in that has begun: the provider is about to answer it. */
interface Flow {
	provider: Provider;
	state: string;
	nonce: string;
	verifier: string;
	view: string; // the fragment to go back to
}

const flowStored = "ostiary.sign-in", signedStored = "ostiary.signed-in";

/** redirect is the address to which the provider sends its answer: that of the page, without a view. */
export function redirect(): string {
	return location.origin + location.pathname;
}

export function signedIn(): Signed | undefined {
	const text = sessionStorage.getItem(signedStored);
	return text ? (JSON.parse(text) as Signed) : undefined;
}

export function forget() {
	sessionStorage.removeItem(signedStored);
	sessionStorage.removeItem(flowStored);
}

/** providers returns the providers at which users may sign in. */
export async function providers(signal: AbortSignal): Promise<Provider[]> {
	const response = await fetch(new URL("sign-in.json", location.href.split(/[?#]/)[0]!), { credentials: "omit", cache: "no-store", redirect: "error", signal });
	return ((await response.json()) as { providers?: Provider[] }).providers ?? [];
}

const base64url = (bytes: Uint8Array) => btoa(String.fromCharCode(...bytes)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
const random = () => base64url(crypto.getRandomValues(new Uint8Array(32)));

/** begin leaves the page for the provider. It comes back to the view that is open now. */
export async function begin(provider: Provider) {
	if (!provider.authorization_endpoint) throw new Error(`${provider.issuer} does not answer the server: try again later, or sign in with a key.`);
	if (!globalThis.crypto?.subtle) throw new Error(`This page came over plain HTTP from another machine, and a browser then refuses what the sign-in needs: open it with https://, or sign in with a key.`);
	const flow: Flow = { provider, state: random(), nonce: random(), verifier: random(), view: location.hash };
	const challenge = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(flow.verifier)));
	sessionStorage.setItem(flowStored, JSON.stringify(flow));
	const to = new URL(provider.authorization_endpoint);
	for (const [name, value] of Object.entries({ response_type: "code", client_id: provider.client_id, redirect_uri: redirect(), scope: provider.scope, state: flow.state, nonce: flow.nonce, code_challenge: base64url(challenge), code_challenge_method: "S256" })) to.searchParams.set(name, value);
	location.assign(to);
}

/** Answer is that of a provider, as it was in the address of the page. */
export interface Answer {
	params: URLSearchParams;
	flow: Flow | undefined;
}

/** take takes the answer of a provider out of the address, and the sign-in that it belongs to out of the storage; undefined without one. */
export function take(): Answer | undefined {
	const params = new URLSearchParams(location.search);
	if (!params.has("state") && !params.has("code") && !params.has("error")) return undefined;
	const text = sessionStorage.getItem(flowStored);
	sessionStorage.removeItem(flowStored);
	const flow = text ? (JSON.parse(text) as Flow) : undefined;
	history.replaceState(null, "", location.pathname + (flow?.view ?? ""));
	return { params, flow };
}

/** claims returns the claims of a signed token, without a check: they are shown, and compared with what this page sent. */
function claims(token: string): Record<string, unknown> | undefined {
	try {
		const bytes = Uint8Array.from(atob(token.split(".")[1]!.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
		const value = JSON.parse(new TextDecoder().decode(bytes));
		return typeof value === "object" && value !== null ? value : undefined;
	} catch {
		return undefined;
	}
}

const text = (value: unknown) => (typeof value === "string" ? value : "");
const list = (value: unknown) => (Array.isArray(value) ? value.map(String) : [String(value)]);

/** finish exchanges the code of an answer for a token, and returns it. It throws what went wrong, in words for the user. */
export async function finish({ params, flow }: Answer): Promise<string> {
	const again = " Sign in again.";
	if (!flow || params.get("state") !== flow.state) throw new Error("The answer of the provider does not belong to a sign-in of this tab: it is an old one, or another page sent it. Nothing was done with it." + again);
	const { issuer, client_id, token_endpoint } = flow.provider;
	const from = params.get("iss");
	if (from !== null && from !== issuer) throw new Error(`The answer comes from ${from}, expected ${issuer}: nothing was done with it.` + again);
	const refused = params.get("error");
	if (refused !== null) throw new Error(`${issuer} refuses the sign-in: ${refused}${params.get("error_description") ? `: ${params.get("error_description")}` : ""}`);
	const code = params.get("code");
	if (!code) throw new Error(`The answer of ${issuer} has no code.` + again);
	if (!token_endpoint) throw new Error(`${issuer} announces no token endpoint.`);
	let response: Response, body: any;
	try {
		response = await fetch(token_endpoint, {
			method: "POST", credentials: "omit", cache: "no-store", redirect: "error", referrerPolicy: "no-referrer",
			headers: { Accept: "application/json", "Content-Type": "application/x-www-form-urlencoded" },
			body: new URLSearchParams({ grant_type: "authorization_code", code, redirect_uri: redirect(), client_id, code_verifier: flow.verifier }),
		});
	} catch (e) {
		throw new Error(`${token_endpoint} does not answer (${(e as Error).message}): the provider is away, or it does not let pages of ${location.origin} ask it: allow this origin (CORS) for the client ${client_id} there.`);
	}
	try {
		body = await response.json();
	} catch {
		throw new Error(`${token_endpoint} answered ${response.status} without JSON.`);
	}
	if (!response.ok || body?.error) throw new Error(`${issuer} refuses the code: ${text(body?.error) || `status ${response.status}`}${text(body?.error_description) && `: ${text(body.error_description)}`}.` + again);
	const id = claims(text(body.id_token));
	if (!id) throw new Error(`${token_endpoint} answered without an ID token: the scope is ${flow.provider.scope}.`);
	for (const [claim, good, want] of [["iss", id["iss"] === issuer, issuer], ["aud", list(id["aud"]).includes(client_id), client_id], ["nonce", id["nonce"] === flow.nonce, "that of this sign-in"]] as const) {
		if (!good) throw new Error(`The ID token of ${issuer} has the ${claim} ${JSON.stringify(id[claim] ?? null)}, expected ${want}: it was thrown away.` + again);
	}
	// The access token is for the API, if it is one that the server can read: a signed one.
	const access = text(body.access_token).split(".").length === 3 ? claims(text(body.access_token)) : undefined;
	const used = access ?? id;
	const signed: Signed = {
		issuer, who: text(id["preferred_username"]) || text(id["email"]) || text(id["name"]) || text(id["sub"]), audience: list(used["aud"]).join(", "),
		expires: typeof used["exp"] === "number" ? used["exp"] * 1000 : 0, kind: access ? "access token" : "ID token",
	};
	sessionStorage.setItem(signedStored, JSON.stringify(signed));
	return access ? text(body.access_token) : text(body.id_token);
}
