// Forms whose fields are parameters of the view's URL, so that back, forward and a permalink
// bring the same view.
import type { ComponentChildren } from "preact";
import { go, link, type Page, type Route } from "./route";

/** Field is one field of a form. */
export function Field({ name, label, value, list, placeholder, rows }: { name: string; label: string; value: string; list?: string; placeholder?: string; rows?: number }) {
	return (
		<label class="field">
			<span>{label}</span>
			{rows
				? <textarea key={value} name={name} rows={rows} placeholder={placeholder ?? ""} spellcheck={false}>{value}</textarea>
				: <input key={value} name={name} defaultValue={value} list={list ?? ""} placeholder={placeholder ?? ""} autocomplete="off" autocapitalize="off" spellcheck={false} />}
		</label>
	);
}

/** ViewForm is a form that opens the view with the values of its fields. keep are further parameters. */
export function ViewForm({ route, page, keep, children, button }: { route: Route; page: Page; keep: Record<string, string>; children: ComponentChildren; button: string }) {
	return (
		<form
			class="fields"
			onSubmit={(e) => {
				e.preventDefault();
				const values = Object.fromEntries([...new FormData(e.currentTarget)].map(([k, v]) => [k, String(v).trim()]));
				const to = link(route.store, page, { ...keep, ...values, at: route.params.get("at") ?? "" });
				if (to === location.hash) dispatchEvent(new HashChangeEvent("hashchange"));
				else go(to);
			}}
		>
			{children}
			<button type="submit" class="main">{button}</button>
		</form>
	);
}
