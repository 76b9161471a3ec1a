// Test files of policies: requests with the responses that they must get.
import { useRef, useState } from "preact/hooks";
import { Failure } from "../api";
import { Trouble } from "../load";
import { Name, visible } from "../names";
import { casesOf, policies, type Tested } from "../policies";
import { useSession } from "../session";

/** bytesMax bounds the files of one choice together: a request of the API has at most as much. */
const bytesMax = 64 << 20;

interface Ran extends Tested {
	cases: number;
	alone: string[];
}

export function Tests({ store }: { store: string }) {
	const { refused } = useSession();
	const [over, setOver] = useState(false), [ran, setRan] = useState<Ran>(), [error, setError] = useState<Failure>(), [progress, setProgress] = useState("");
	const running = useRef<AbortController>(undefined);
	async function run(files: File[]) {
		setRan(undefined);
		setError(undefined);
		const stop = running.current = new AbortController();
		const out: Ran = { passed: 0, failed: 0, tests: [], cases: 0, alone: [] };
		try {
			if (files.reduce((sum, f) => sum + f.size, 0) > bytesMax) throw new Error(`the files have more than ${bytesMax} bytes`);
			const cases = await casesOf(files.map((file) => ({ path: file.webkitRelativePath || file.name, file })));
			if (cases.every((c) => c.tests.length === 0)) throw new Error("no test among the files: expected pairs such as Request.json and Response.json");
			for (const [i, c] of cases.entries()) {
				out.alone.push(...c.alone.map((n) => (c.folder ? `${c.folder}/${n}` : n)));
				if (c.tests.length === 0) continue;
				setProgress(`${i} of ${cases.length} cases…`);
				const done = await policies.test(store, c.tests, c.change?.root ? c.change : undefined, stop.signal);
				out.cases++;
				out.passed += done.passed;
				out.failed += done.failed;
				out.tests.push(...done.tests.map((t) => ({ ...t, name: c.folder ? `${c.folder}/${t.name}` : t.name })));
			}
			setRan(out);
		} catch (e) {
			if (!stop.signal.aborted) {
				const failure = e instanceof Failure ? e : new Failure(0, "", (e as Error).message);
				if (failure.status === 401) refused(failure);
				setError(failure);
			}
		}
		setProgress("");
	}
	const choose = (e: { currentTarget: HTMLInputElement }) => {
		const files = [...(e.currentTarget.files ?? [])];
		e.currentTarget.value = "";
		if (files.length > 0) void run(files);
	};
	return (
		<section aria-label="Test files">
			<h2>Test files</h2>
			<div
				class={over ? "drop over" : "drop"}
				onDragOver={(e) => { e.preventDefault(); setOver(true); }} onDragLeave={() => setOver(false)}
				onDrop={(e) => { e.preventDefault(); setOver(false); void run([...(e.dataTransfer?.files ?? [])]); }}
			>
				<p>Drop pairs of files, such as <code>Request.json</code> and <code>Response.json</code>, or choose them, or a folder as <code>ostiary xacml test</code> takes it. With a file <code>Policy.alfa</code>, <code>.xml</code> or <code>.json</code> among them, that policy is tried; otherwise those of the store. Nothing is written.</p>
				<p class="live">
					<label class="field"><span>Files</span><input type="file" multiple accept=".json,.xml,.alfa" onChange={choose} /></label>
					<label class="field"><span>A folder</span><input type="file" ref={(i) => i?.setAttribute("webkitdirectory", "")} onChange={choose} /></label>
					{progress && <><span role="status">{progress}</span> <button type="button" onClick={() => { running.current?.abort(); setProgress(""); }}>Stop</button></>}
				</p>
				<Trouble error={error} />
			</div>
			{ran && (
				<>
					<p role="status" class={ran.failed === 0 ? "ok" : "trouble"}>{ran.tests.length === 1 ? "1 test" : `${ran.tests.length} tests`}, {ran.failed} failed</p>
					{ran.alone.length > 0 && <p class="soft">Left out, because they have no response: <Name text={ran.alone.slice(0, 10).join(", ")} />. The command line expects that such requests are refused.</p>}
					<ul class="found">
						{ran.tests.slice(0, 1000).map((t, i) => (
							<li key={i}><span class={t.passed ? "true" : "false"}>{t.passed ? "✓ pass" : "✗ FAIL"}</span> <Name text={t.name} />{t.differences && <ul>{t.differences.map((d, j) => <li key={j}>{visible(d)}</li>)}</ul>}</li>
						))}
					</ul>
				</>
			)}
		</section>
	);
}
