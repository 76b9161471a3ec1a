// The editor of a model: CodeMirror in a shadow root, where its styles need no exception in the
// Content-Security-Policy.
import { autocompletion, completionKeymap, type Completion, type CompletionContext, type CompletionResult } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { HighlightStyle, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, setDiagnostics } from "@codemirror/lint";
import { EditorState, type Text } from "@codemirror/state";
import { drawSelection, EditorView, highlightSpecialChars, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "preact/hooks";
import { visible } from "./names";

/** language highlights models: OpenFGA's language, and what others have in common with it. */
const language = StreamLanguage.define<null>({
	startState: () => null,
	token(stream) {
		if ((stream.sol() || /\s/.test(stream.string[stream.pos - 1]!)) && stream.match(/^(#|\/\/).*/)) return "comment";
		if (stream.match(/^"(\\.|[^"])*"?/)) return "string";
		if (stream.match(/^\b(model|schema|type|relations|define|condition|module|extend|entity|relation|permission|action|attribute|rule)\b/)) return "keyword";
		if (stream.match(/^\b(or|and|but|not|from|with)\b/)) return "operatorKeyword";
		if (stream.match(/^[\p{L}_][\p{L}\p{N}_-]*/u)) return stream.match(/^\s*:/, false) ? "definition" : "name";
		stream.next();
		return null;
	},
	tokenTable: { definition: tags.definition(tags.variableName) },
});

const style = HighlightStyle.define([
	{ tag: tags.keyword, color: "var(--accent)", fontWeight: "600" },
	{ tag: tags.operatorKeyword, color: "var(--unknown)", fontWeight: "600" },
	{ tag: tags.definition(tags.variableName), fontWeight: "600" },
	{ tag: tags.comment, color: "var(--soft)" },
	{ tag: tags.string, color: "var(--true)" },
]);

const theme = EditorView.theme({
	"&": { color: "var(--text)", backgroundColor: "var(--page)", fontSize: "14px", height: "100%" },
	"&.cm-focused": { outline: "2px solid var(--accent)" },
	".cm-content": { caretColor: "var(--text)", fontFamily: "ui-monospace, Menlo, Consolas, monospace" },
	".cm-gutters": { backgroundColor: "var(--shade)", color: "var(--soft)", border: "none" },
	".cm-cursor": { borderLeftColor: "var(--text)" },
	".cm-specialChar": { color: "var(--false)" },
	// In place of pictures in data: URLs, which the Content-Security-Policy blocks.
	".cm-lint-marker-error": { content: "normal", borderRadius: "50%", backgroundColor: "var(--false)" },
	".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--false)" },
	".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--page)" },
	".cm-tooltip": { backgroundColor: "var(--shade)", color: "var(--text)", border: "1px solid var(--line)" },
});

const keywords: Record<string, string> = {
	keyword: "model schema type relations define condition module extend entity relation permission action attribute rule",
	operator: "or and but not from with",
};

/** completion offers the keywords, and the types and relations of the text: after #, those of the type before it; in brackets, types. */
export function completion(context: CompletionContext): CompletionResult | null {
	const word = context.matchBefore(/[\p{L}\p{N}_-]*$/u)!, before = context.state.sliceDoc(Math.max(0, word.from - 200), word.from);
	const of = /([\p{L}\p{N}_-]+)#$/u.exec(before)?.[1];
	if (word.from === word.to && !context.explicit && !/[#[]$/.test(before)) return null;
	const types = new Map<string, string[]>();
	let last: string[] = [];
	for (const line of context.state.doc.iterLines()) {
		const [, kind, name] = /^\s*(type|entity|define|relation|permission|action|attribute)\s+([\p{L}\p{N}_-]+)/u.exec(line) ?? [];
		if (!kind || !name) continue;
		if (kind === "type" || kind === "entity") types.set(name, (last = types.get(name) ?? []));
		else last.push(name);
	}
	const options: Completion[] = [];
	const add = (type: string, labels: Iterable<string>) => { for (const label of new Set(labels)) options.push({ label, type }); };
	if (of) add("property", types.get(of) ?? []);
	else {
		add("class", types.keys());
		if (!/\[[^\]]*$/.test(before)) add("property", [...types.values()].flat());
		for (const [type, words] of Object.entries(keywords)) add(type, words.split(" "));
	}
	return { from: word.from, options, validFor: /^[\p{L}\p{N}_-]*$/u };
}

/** place returns the part of a model that an error of the API is about. */
export function place(message: string, doc: Text): { from: number; to: number } {
	const at = /line (\d+), column (\d+)/.exec(message);
	if (at) {
		const line = doc.line(Math.min(Math.max(Number(at[1]), 1), doc.lines));
		return { from: Math.min(line.from + Number(at[2]), line.to), to: line.to };
	}
	const named = /: ([^\s#:]+)(?:#([^\s:]+))?: /.exec(message);
	let found: { from: number; to: number } | undefined, type = "";
	for (let i = 1; named && i <= doc.lines; i++) {
		const line = doc.line(i), text = line.text.trim().split(/[\s:{]+/);
		if (text[0] === "type" || text[0] === "entity") type = text[1] ?? "";
		if (type !== named[1]) continue;
		found ??= line;
		if (text[0] !== undefined && ["define", "relation", "permission", "action", "attribute"].includes(text[0]) && text[1] === named[2]) return line;
	}
	return found ?? { from: 0, to: doc.line(1).to };
}

/**
 * replaceSelection types over a selection in place of the browser, which would keep its looks in an
 * inline style: the Content-Security-Policy blocks that. Whoever composes a character is left alone.
 */
function replaceSelection(e: InputEvent, view: EditorView): boolean {
	if (e.inputType !== "insertText" || e.data === null || e.isComposing || view.state.selection.main.empty) return false;
	e.preventDefault();
	if (!view.state.readOnly) view.dispatch(view.state.replaceSelection(e.data), { userEvent: "input.type", scrollIntoView: true });
	return true;
}

interface Props {
	text: string;
	editable: boolean;
	error: string; // of the API about the text; "" for none
	onChange: (text: string) => void;
}

/** Editor shows a model. It reports each change of the user. */
export function Editor({ text, editable, error, onChange }: Props) {
	const host = useRef<HTMLDivElement>(null), view = useRef<EditorView | null>(null);
	const report = useRef(onChange);
	report.current = onChange;
	useEffect(() => {
		const root = host.current!.shadowRoot ?? host.current!.attachShadow({ mode: "open" });
		const editor = new EditorView({
			root, parent: root as unknown as Element,
			state: EditorState.create({
				doc: text,
				extensions: [
					lineNumbers(), lintGutter(), history(), drawSelection(), highlightSpecialChars(), language, syntaxHighlighting(style), theme,
					autocompletion({ override: [completion], icons: false, selectOnOpen: false }),
					keymap.of([...completionKeymap, ...defaultKeymap, ...historyKeymap]), EditorView.lineWrapping,
					EditorView.domEventHandlers({ beforeinput: replaceSelection }), EditorState.readOnly.of(!editable), EditorView.contentAttributes.of({ "aria-label": editable ? "Model" : "Model, read-only" }),
					EditorView.updateListener.of((u) => u.docChanged && report.current(u.state.doc.toString())),
				],
			}),
		});
		view.current = editor;
		return () => editor.destroy();
	}, [text, editable]);
	useEffect(() => {
		const editor = view.current;
		if (!editor) return;
		const { from, to } = place(error, editor.state.doc);
		editor.dispatch(setDiagnostics(editor.state, error ? [{ from, to: Math.max(from, to), severity: "error", message: visible(error) }] : []));
	}, [error, text, editable]);
	return <div class="editor" ref={host} />;
}
