// Tests of a model: questions with the expected answers, one on each line.
import { lines } from "./text";

/** Check is a question, and whether its answer must be allowed. */
export interface Check {
	subject: string;
	relation: string;
	object: string;
	expected: boolean;
}

/** checks returns the tests of a text: "SUBJECT RELATION OBJECT", or "not SUBJECT RELATION OBJECT" for a denial. */
export function checks(text: string): Check[] {
	return text.split("\n").flatMap((line, i) => {
		const denied = /^\s*not\s+/.exec(line);
		try {
			return lines(denied ? line.slice(denied[0].length) : line).map((q) => ({ ...q, expected: !denied }));
		} catch (e) {
			throw new Error(`line ${i + 1}${(e as Error).message.replace(/^line 1/, "")}, or "not" before it`);
		}
	});
}
