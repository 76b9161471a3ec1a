// The formats of files with tuples that "ostiary tuple import" also takes: CSV, JSON, JSON lines
// and YAML. What a file means is checked here only as far as its form goes; the API checks the
// tuples.
import { isNode, isSeq, LineCounter, parseDocument } from "yaml";
import type { Tuple } from "./api";

/** Parsed is the content of a file: its tuples, and the line on which each one begins. */
export interface Parsed {
	tuples: Tuple[];
	lines: number[];
}

/** Wrong is what is wrong in a file, and on which line. */
export class Wrong extends Error {
	constructor(readonly line: number, message: string) {
		super(`line ${line}: ${message}`);
	}
}

const columns = ["user_type", "user_id", "user_relation", "relation", "object_type", "object_id", "condition_name", "condition_context", "expires"] as const;

/** parseFile returns the tuples of a file, by the ending of its name. It throws Wrong for the first error. */
export function parseFile(name: string, text: string): Parsed {
	const out: Parsed = { tuples: [], lines: [] };
	const body = text.replace(/^\ufeff/, "");
	const ending = /\.([a-z]+)$/.exec(name.toLowerCase())?.[1] ?? "";
	switch (ending) {
		case "csv": csv(body, out); break;
		case "yaml": case "yml": yaml(body, out); break;
		case "json": json(body, out); break;
		case "jsonl": case "ndjson": body.split("\n").forEach((line, i) => line.trim() && push(out, i + 1, jsonOf(line, i + 1))); break;
		default: throw new Error(`the file ${name}: expected a name that ends in .csv, .json, .jsonl or .yaml`);
	}
	return out;
}

/** jsonOf returns a JSON value of a text that begins on a line. */
function jsonOf(text: string, line: number): unknown {
	try {
		return JSON.parse(text);
	} catch (e) {
		const message = (e as Error).message, at = /position (\d+)/.exec(message);
		throw new Wrong(line + (at ? text.slice(0, Number(at[1])).split("\n").length - 1 : 0), message);
	}
}

/** exact reports whether a value has no integer that a browser rounds. */
function exact(value: unknown): boolean {
	if (typeof value === "number") return !Number.isInteger(value) || Number.isSafeInteger(value);
	return typeof value !== "object" || value === null || Object.values(value).every(exact);
}

/** push adds a record, or a row of OpenFGA's Read. It refuses members that it does not know: a misspelt condition must not make a tuple without one. */
function push(out: Parsed, line: number, value: unknown) {
	const object = (v: unknown, what: string, known: string[]): Record<string, unknown> => {
		if (typeof v !== "object" || v === null || Array.isArray(v)) throw new Wrong(line, `${what}: expected an object`);
		for (const name of Object.keys(v)) if (!known.includes(name)) throw new Wrong(line, `${what} has the unknown member ${JSON.stringify(name)}: expected ${known.join(", ")}`);
		return v as Record<string, unknown>;
	};
	const text = (v: unknown, what: string): string => {
		if (typeof v !== "string" || v === "") throw new Wrong(line, `${what}: expected a text`);
		return v;
	};
	let row = value;
	if (typeof row === "object" && row !== null && "key" in row) row = object(row, "the row", ["key", "timestamp"])["key"];
	const r = object(row, "the tuple", ["user", "relation", "object", "condition", "expires"]);
	const tuple: Tuple = { subject: text(r["user"], "user"), relation: text(r["relation"], "relation"), object: text(r["object"], "object") };
	if (r["condition"] !== undefined && r["condition"] !== null) {
		const c = object(r["condition"], "the condition", ["name", "context"]);
		tuple.condition = text(c["name"], "the name of the condition");
		if (!exact(c["context"])) throw new Wrong(line, "the context has an integer of more digits than a browser keeps: import the file with the command line");
		if (c["context"] !== undefined && c["context"] !== null) tuple.context = c["context"] as Record<string, unknown>;
	}
	if (r["expires"] !== undefined && r["expires"] !== null && r["expires"] !== "") tuple.expires = text(r["expires"], "expires");
	out.tuples.push(tuple);
	out.lines.push(line);
}

function yaml(text: string, out: Parsed) {
	const counter = new LineCounter(), doc = parseDocument(text, { lineCounter: counter, uniqueKeys: true, schema: "core", logLevel: "error" });
	const at = (offset: number | undefined) => Math.max(1, counter.linePos(offset ?? 0).line);
	const failed = doc.errors[0];
	if (failed) throw new Wrong(at(failed.pos[0]), failed.message.split("\n")[0]!);
	if (doc.contents === null) return;
	if (!isSeq(doc.contents)) throw new Wrong(1, "expected a list of tuples");
	for (const item of doc.contents.items) push(out, at((isNode(item) && item.range?.[0]) || 0), isNode(item) ? item.toJS(doc) : item);
}

function json(text: string, out: Parsed) {
	const values = text.trim() === "" ? [] : jsonOf(text, 1);
	const page = values as { tuples?: unknown; continuation_token?: string };
	if (!Array.isArray(values) && Array.isArray(page?.tuples) && page.continuation_token) throw new Wrong(1, "the page has a continuation_token: more tuples follow it, which are not in the file");
	const list = Array.isArray(values) ? values : Array.isArray(page?.tuples) ? page.tuples : [values];
	const starts = starting(text);
	(list as unknown[]).forEach((v, i) => push(out, starts[i] ?? 1, v));
}

/** starting returns the lines on which the objects of a list begin. */
function starting(text: string): number[] {
	const lines: number[] = [];
	const first = text.indexOf("["), level = first < 0 ? 0 : 1;
	let depth = level, line = text.slice(0, Math.max(first, 0)).split("\n").length, quoted = false;
	for (let i = first < 0 ? 0 : first + 1; i < text.length; i++) {
		const c = text[i];
		if (c === "\n") line++;
		else if (quoted) { if (c === "\\") i++; else if (c === '"') quoted = false; }
		else if (c === '"') quoted = true;
		else if (c === "{" || c === "[") { if (depth === level && c === "{") lines.push(line); depth++; }
		else if (c === "}" || c === "]") depth--;
	}
	return lines;
}

/** csv reads records as RFC 4180 has them, whose first one names the columns. */
function csv(text: string, out: Parsed) {
	let header: string[] | undefined;
	for (const { fields, line } of records(text)) {
		if (!header) {
			header = fields.map((f) => f.trim());
			for (const [i, f] of header.entries()) {
				if (!(columns as readonly string[]).includes(f)) throw new Wrong(line, `no column is called ${JSON.stringify(f)}; the columns are ${columns.join(",")}`);
				if (header.indexOf(f) !== i) throw new Wrong(line, `duplicate column ${f}`);
			}
			for (const f of ["user_type", "user_id", "relation", "object_type", "object_id"]) if (!header.includes(f)) throw new Wrong(line, `column ${f} is missing`);
			if (header.includes("condition_context") && !header.includes("condition_name")) throw new Wrong(line, "column condition_context requires column condition_name");
			continue;
		}
		if (fields.length !== header.length) throw new Wrong(line, `${fields.length} fields, expected ${header.length} as in the header`);
		const of = (column: typeof columns[number]) => fields[header!.indexOf(column)] ?? "";
		const name = of("condition_name"), context = of("condition_context");
		if (context && !name) throw new Wrong(line, "condition_context requires condition_name");
		push(out, line, {
			user: `${of("user_type")}:${of("user_id")}${of("user_relation") && "#" + of("user_relation")}`, relation: of("relation"), object: `${of("object_type")}:${of("object_id")}`,
			...(name && { condition: { name, ...(context && { context: jsonOf(context, line) }) } }), ...(of("expires") && { expires: of("expires") }),
		});
	}
}

/** records yields the records of a CSV text. Empty lines are left out. */
function* records(text: string): Generator<{ fields: string[]; line: number }> {
	let i = 0, line = 1;
	while (i < text.length) {
		const fields: string[] = [], start = line;
		for (;;) {
			let field = "";
			if (text[i] === '"') {
				for (i++; ; i++) {
					if (i >= text.length) throw new Wrong(start, "a quoted field does not end");
					if (text[i] === '"') { if (text[i + 1] === '"') i++; else break; }
					if (text[i] === "\n") line++;
					field += text[i];
				}
				i++;
				if (i < text.length && !/[,\r\n]/.test(text[i]!)) throw new Wrong(line, "unexpected text after a quoted field");
			} else {
				const end = /[,\n]/g;
				end.lastIndex = i;
				const stop = end.exec(text)?.index ?? text.length;
				field = text.slice(i, stop);
				if (text[stop] !== ",") field = field.replace(/\r$/, "");
				if (field.includes('"')) throw new Wrong(line, 'a field with " is not quoted');
				i = stop;
			}
			fields.push(field);
			if (text[i] === ",") { i++; continue; }
			if (text[i] === "\r") i++;
			if (text[i] === "\n") { i++; line++; }
			break;
		}
		if (fields.length > 1 || fields[0] !== "") yield { fields, line: start };
	}
}
