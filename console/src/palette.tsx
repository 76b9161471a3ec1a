// The palette of commands, with Ctrl+K or Cmd+K.
import { useEffect, useRef, useState } from "preact/hooks";

export interface Command {
	name: string;
	run: () => void;
}

export function Palette({ commands, open, setOpen }: { commands: Command[]; open: boolean; setOpen: (open: boolean) => void }) {
	const dialog = useRef<HTMLDialogElement>(null);
	const [text, setText] = useState(""), [chosen, setChosen] = useState(0);
	useEffect(() => {
		const key = (e: KeyboardEvent) => {
			if ((e.ctrlKey || e.metaKey) && e.key.toLowerCase() === "k") {
				e.preventDefault();
				setOpen(true);
			}
		};
		addEventListener("keydown", key);
		return () => removeEventListener("keydown", key);
	}, []);
	useEffect(() => {
		if (open) { setText(""); setChosen(0); dialog.current?.showModal(); } else dialog.current?.close();
	}, [open]);
	const words = text.toLowerCase().split(/\s+/);
	const found = commands.filter((c) => words.every((w) => c.name.toLowerCase().includes(w)));
	const run = (c: Command | undefined) => { setOpen(false); c?.run(); };
	return (
		<dialog ref={dialog} class="palette" aria-label="Commands" onClose={() => setOpen(false)}>
			<input
				aria-label="Command" placeholder="Type a command" value={text} role="combobox" aria-expanded="true" aria-controls="commands" aria-activedescendant={found.length ? `command-${chosen}` : undefined} autocomplete="off"
				onInput={(e) => { setText(e.currentTarget.value); setChosen(0); }}
				onKeyDown={(e) => {
					if (e.key === "ArrowDown") { e.preventDefault(); setChosen(Math.min(chosen + 1, found.length - 1)); }
					if (e.key === "ArrowUp") { e.preventDefault(); setChosen(Math.max(chosen - 1, 0)); }
					if (e.key === "Enter") { e.preventDefault(); run(found[chosen]); }
				}}
			/>
			<ul id="commands" role="listbox" aria-label="Commands">
				{found.map((c, i) => <li key={c.name} id={`command-${i}`} role="option" aria-selected={i === chosen} onClick={() => run(c)}>{c.name}</li>)}
			</ul>
		</dialog>
	);
}
