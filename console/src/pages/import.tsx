// Import of a file with tuples, by drop or choice. The whole file is read and checked for its form
// before the first tuple is sent. Each entry of the log is written whole or not at all.
import { useEffect, useRef, useState } from "preact/hooks";
import { api, Failure, type Tuple } from "../api";
import { parseFile, type Parsed } from "../importfile";
import { visible } from "../names";
import { count } from "../text";

/** entryTuples is the number of tuples in one entry of the log, and fileMax bounds a file in bytes. */
const entryTuples = 5000, fileMax = 64 << 20;

interface Props {
	store: string;
	reason: string;
	/** done is called when tuples were written; undo has them if their removal takes the import back. */
	done: (text: string, revision: number, undo?: Tuple[]) => void;
}

export function Import({ store, reason, done }: Props) {
	const [file, setFile] = useState<{ name: string; parsed: Parsed }>();
	const [error, setError] = useState(""), [over, setOver] = useState(false);
	const [duplicates, setDuplicates] = useState("fail");
	const [sent, setSent] = useState<number>();
	const stop = useRef(false);
	useEffect(() => () => { stop.current = true; }, []);
	useEffect(() => {
		if (sent === undefined) return;
		const ask = (e: BeforeUnloadEvent) => e.preventDefault();
		addEventListener("beforeunload", ask);
		return () => removeEventListener("beforeunload", ask);
	}, [sent === undefined]);

	async function take(chosen: File | undefined) {
		setFile(undefined);
		setError("");
		if (!chosen) return;
		try {
			if (chosen.size > fileMax) throw new Error(`the file has ${chosen.size} bytes: expected at most ${fileMax}; import it with "ostiary tuple import"`);
			const parsed = parseFile(chosen.name, await chosen.text());
			if (parsed.tuples.length === 0) throw new Error("the file has no tuple");
			setFile({ name: chosen.name, parsed });
		} catch (e) {
			setError(`Nothing was imported from ${chosen.name}: ${(e as Error).message}`);
		}
	}

	async function run({ name, parsed }: { name: string; parsed: Parsed }) {
		const all = parsed.tuples, n = all.length;
		let at = 0, changed = 0, revision = 0;
		stop.current = false;
		setError("");
		const written = () => (at === 0 ? "Nothing was imported." : `Tuples 1 to ${at} of ${n} are written, the others are not.`);
		try {
			for (; at < n && !stop.current; at = Math.min(n, at + entryTuples)) {
				setSent(at);
				const imported = await api.add(store, all.slice(at, at + entryTuples), duplicates, reason);
				changed += imported.written;
				revision = imported.revision;
			}
			if (at < n) setError(`Stopped. ${written()}`);
			else setFile(undefined);
		} catch (e) {
			const failure = e as Failure, upTo = Math.min(n, at + entryTuples);
			const line = failure.tuple > 0 ? `line ${parsed.lines[at + failure.tuple - 1]}: ` : "";
			const unknown = failure.status === 0 ? ` It is not known whether tuples ${at + 1} to ${upTo} are written: import the file again, and let what is there already be.` : "";
			setError(`${name}: ${line}${failure.code && failure.code + ": "}${failure.message.replace(/^tuple \d+: /, "")}. ${unknown ? unknown.trim() + (at > 0 ? ` Tuples 1 to ${at} are written.` : "") : written()}`);
		}
		setSent(undefined);
		if (at > 0) done(`imported ${count(at, "tuple")} of ${name}, ${changed === at ? "all new" : `${count(changed, "tuple")} new or changed`}`, revision, duplicates === "fail" && at === n && n <= entryTuples ? all : undefined);
	}

	const entries = Math.ceil((file?.parsed.tuples.length ?? 0) / entryTuples);
	return (
		<section
			class={over ? "drop over" : "drop"} aria-label="Import"
			onDragOver={(e) => { e.preventDefault(); setOver(true); }}
			onDragLeave={() => setOver(false)}
			onDrop={(e) => { e.preventDefault(); setOver(false); if (sent === undefined) take(e.dataTransfer?.files[0]); }}
		>
			<label class="field"><span>Import a file: drop it here or choose it (.csv, .json, .jsonl, .yaml, as "ostiary tuple import" takes them)</span>
				<input type="file" accept=".csv,.json,.jsonl,.ndjson,.yaml,.yml" disabled={sent !== undefined} onChange={(e) => { take(e.currentTarget.files?.[0]); e.currentTarget.value = ""; }} />
			</label>
			{file && sent === undefined && (
				<form class="fields" onSubmit={(e) => { e.preventDefault(); run(file); }}>
					<label class="field"><span>Tuples that are there already</span>
						<select value={duplicates} onChange={(e) => setDuplicates(e.currentTarget.value)}><option value="fail">are an error</option><option value="ignore">stay as they are</option><option value="replace">are replaced</option></select>
					</label>
					<button type="submit" class="main">Import {count(file.parsed.tuples.length, "tuple")} of {visible(file.name)}</button>
					<p class="soft">{entries === 1 ? "They are written together: all of them or none." : `They are written in ${entries} steps of ${entryTuples.toLocaleString("en")}, each of them whole or not at all. An error stops the import; the steps before it remain.`}</p>
				</form>
			)}
			{file && sent !== undefined && (
				<p role="status">
					<progress max={file.parsed.tuples.length} value={sent} aria-label="Imported" /> {sent.toLocaleString("en")} of {count(file.parsed.tuples.length, "tuple")} <button type="button" onClick={() => { stop.current = true; }}>Stop</button>
				</p>
			)}
			{error && <p class="trouble" role="alert">{visible(error)}</p>}
		</section>
	);
}
