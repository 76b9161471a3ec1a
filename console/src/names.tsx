// Names come from clients and may have any character. visible and Name show those that cannot
// be seen, or that change the direction of the text around them.

const unseen = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u034f\u115f\u1160\u3164\uffa0]/gu;

const code = (c: string) => "U+" + c.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0");

/** visible returns text with each character that cannot be seen replaced by its code. */
export function visible(text: string): string {
	return text.replace(unseen, (c) => `⟨${code(c)}⟩`);
}

/** Name shows a text of a client, apart from the direction of the text around it. */
export function Name({ text }: { text: string }) {
	return <bdi class="name">{visible(text)}</bdi>;
}

/** shorten returns a visible text of at most max characters. */
export function shorten(text: string, max: number): string {
	const seen = visible(text);
	return seen.length > max ? seen.slice(0, max - 1) + "…" : seen;
}
