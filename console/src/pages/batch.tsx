// Many questions at once, each with a link to its explanation.
import { api, at, Failure } from "../api";
import { Trouble, useLoaded, Waiting } from "../load";
import { Name, visible } from "../names";
import { link } from "../route";
import { useSession } from "../session";
import { lines, parameters } from "../text";

const words = { true: "✓ allowed", false: "✗ denied", unknown: "? undecided" } as const;

/** Batch asks the questions of a text, with one on each line. All answers are of one revision. */
export function Batch({ store, text, context, revision }: { store: string; text: string; context: string; revision: string }) {
	const { version } = useSession();
	const answer = useLoaded(async (s) => {
		try {
			const questions = lines(text), values = parameters(context);
			return { questions, ...(await api.ask(store, "batch", { questions, ...(values && { context: values }), ...at(revision) }, "", s)) };
		} catch (e) {
			throw e instanceof Failure || s.aborted ? e : new Failure(0, "", (e as Error).message);
		}
	}, [store, text, context, revision], version);
	const x = answer.value, allowed = x?.results.filter((r) => r.allowed).length ?? 0, failed = x?.results.filter((r) => r.error).length ?? 0;
	return (
		<section aria-label="Answer">
			<Waiting of={answer} /><Trouble error={answer.error} />
			{x && (
				<>
					<p role="status">{allowed} of {x.questions.length} allowed{failed > 0 && `, ${failed} failed`}, revision {x.revision}. <a href={link(store, "ask", { kind: "batch", questions: text, context, at: String(x.revision) })}>Permalink</a></p>
					<div class="scroll" tabIndex={0} role="region" aria-label="Answers">
						<table>
							<thead><tr><th scope="col">Question</th><th scope="col">Answer</th><th scope="col">Why</th></tr></thead>
							<tbody>
								{x.questions.map((q, i) => {
									const r = x.results[i], truth = r?.truth ?? "false";
									return (
										<tr key={i}>
											<td><Name text={`${q.subject} ${q.relation} ${q.object}`} /></td>
											<td class={r?.error ? "" : truth}>{r?.error ? <><code>{r.error.code}</code> {visible(r.error.message)}</> : words[truth]}</td>
											<td><a href={link(store, "ask", { kind: "check", ...q, context, at: String(x.revision) })} aria-label={`Why: ${visible(`${q.subject} ${q.relation} ${q.object}`)}`}>why</a></td>
										</tr>
									);
								})}
							</tbody>
						</table>
					</div>
				</>
			)}
		</section>
	);
}
