// Between the texts that people write and the members that the API takes. What is invalid, the
// API refuses with its own words.
import type { Filter, Tuple } from "./api";

/** split returns the parts of type:id#relation; a missing part is "". */
export function split(text: string): { type: string; id: string; relation: string } {
	const colon = text.indexOf(":");
	if (colon < 0) return { type: text, id: "", relation: "" };
	const rest = text.slice(colon + 1), hash = rest.indexOf("#");
	return { type: text.slice(0, colon), id: hash < 0 ? rest : rest.slice(0, hash), relation: hash < 0 ? "" : rest.slice(hash + 1) };
}

/** filterOf returns the filter of an object, a relation and a subject; "" matches everything. */
export function filterOf(object: string, relation: string, subject: string): Filter {
	const o = split(object), s = split(subject);
	const members = { object_type: o.type, object_id: o.id, relation, subject_type: s.type, subject_id: s.id, subject_relation: s.relation };
	return Object.fromEntries(Object.entries(members).filter(([, v]) => v !== ""));
}

/** lines returns the tuples or questions of a text with "SUBJECT RELATION OBJECT" on each line. */
export function lines(text: string): { subject: string; relation: string; object: string }[] {
	return text.split("\n").map((l) => l.trim()).filter((l) => l !== "").map((line, i) => {
		const [subject, relation, object, ...more] = line.split(/\s+/);
		if (!subject || !relation || !object || more.length > 0) throw new Error(`line ${i + 1}, "${line}": expected SUBJECT RELATION OBJECT`);
		return { subject, relation, object };
	});
}

/** parameters returns the parameters of conditions that a text has as a JSON object. */
export function parameters(text: string): Record<string, unknown> | undefined {
	if (text.trim() === "") return undefined;
	let value: unknown;
	try {
		value = JSON.parse(text);
	} catch (e) {
		throw new Error(`invalid parameters: ${(e as Error).message}: expected a JSON object`);
	}
	if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error("invalid parameters: expected a JSON object");
	return value as Record<string, unknown>;
}

/** count returns a number of things, whose plural has an s. */
export function count(n: number, what: string): string {
	return `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;
}

export function textOf(t: { object: string; relation: string; subject: string }): string {
	return `${t.object}#${t.relation}@${t.subject}`;
}

/** written returns what a write needs to add a tuple again. */
export function written({ object, relation, subject, condition, context, expires }: Tuple): Tuple {
	return JSON.parse(JSON.stringify({ object, relation, subject, condition, context, expires }));
}

/** when returns a time of the API for people, in UTC. */
export function when(time: string | undefined): string {
	return time ? time.replace("T", " ").replace(/\.\d+/, "").replace(/Z$/, " UTC") : "";
}
