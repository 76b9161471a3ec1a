// Forms. One of a view has fields that are parameters of the view's URL, so that back, forward
// and a permalink bring the same view. Every form marks the fields that it lacks.
import { createContext, type ComponentChildren } from "preact";
import { useContext, useState } from "preact/hooks";
import { visible } from "./names";
import { go, link, type Page, type Route } from "./route";

/** Wrong has what is wrong with a form, by the names of its fields. */
type Wrong = Record<string, string>;

const WrongContext = createContext<Wrong>({});

interface FieldProps {
	name: string;
	label: string;
	value: string;
	list?: string;
	placeholder?: string;
	rows?: number;
	required?: boolean;
}

/** Field is one field of a form. */
export function Field({ name, label, value, list, placeholder, rows, required }: FieldProps) {
	const wrong = useContext(WrongContext)[name];
	const marks = { required: required ?? false, ...(wrong !== undefined && { "aria-invalid": "true" as const, "aria-describedby": `wrong-${name}` }) };
	return (
		<label class="field">
			<span>{label}</span>
			{rows
				? <textarea key={value} name={name} rows={rows} placeholder={placeholder ?? ""} spellcheck={false} {...marks}>{value}</textarea>
				: <input key={value} name={name} defaultValue={value} list={list ?? ""} placeholder={placeholder ?? ""} autocomplete="off" autocapitalize="off" spellcheck={false} {...marks} />}
			{wrong !== undefined && <strong class="wrong" id={`wrong-${name}`}>{visible(wrong)}</strong>}
		</label>
	);
}

/** valuesOf returns the values of the fields of a form, without space around them. */
function valuesOf(form: HTMLFormElement): Record<string, string> {
	return Object.fromEntries([...new FormData(form)].map(([k, v]) => [k, String(v).trim()]));
}

interface FormProps {
	class?: string;
	submit: (values: Record<string, string>, form: HTMLFormElement) => void;
	/** wrong returns what is wrong with values that are there. */
	wrong?: (values: Record<string, string>) => Wrong;
	children: ComponentChildren;
}

/** Form submits its values if its required fields have one and wrong finds nothing; else it marks the fields, and the first of them gets the focus. */
export function Form({ class: name, submit, wrong, children }: FormProps) {
	const [marked, mark] = useState<Wrong>({});
	return (
		<form
			class={name ?? "fields"} noValidate
			onInput={(e) => {
				const { name } = e.target as HTMLInputElement;
				if (name in marked) mark(({ [name]: _, ...rest }) => rest);
			}}
			onSubmit={(e) => {
				e.preventDefault();
				const form = e.currentTarget, values = valuesOf(form), all = [...form.elements] as HTMLInputElement[];
				const found: Wrong = { ...wrong?.(values) };
				for (const { name, required, placeholder } of all) {
					if (required && !values[name]) found[name] = "Fill this in" + (placeholder ? `, for example ${placeholder.split("\n")[0]}` : "");
				}
				mark(found);
				const first = all.find((f) => f.name in found);
				if (first) first.focus();
				else submit(values, form);
			}}
		>
			<WrongContext.Provider value={marked}>{children}</WrongContext.Provider>
		</form>
	);
}

interface ViewFormProps {
	route: Route;
	page: Page;
	/** keep are further parameters. */
	keep: Record<string, string>;
	wrong?: FormProps["wrong"];
	children: ComponentChildren;
	button: string;
}

/** ViewForm is a form that opens the view with the values of its fields. */
export function ViewForm({ route, page, keep, wrong, children, button }: ViewFormProps) {
	return (
		<Form
			{...(wrong && { wrong })}
			submit={(values) => {
				const to = link(route.store, page, { ...keep, ...values, at: route.params.get("at") ?? "" });
				if (to === location.hash) dispatchEvent(new HashChangeEvent("hashchange"));
				else go(to);
			}}
		>
			{children}
			<button type="submit" class="main">{button}</button>
		</Form>
	);
}
