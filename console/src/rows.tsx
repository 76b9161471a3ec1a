// A table of many rows, of which only those in sight are in the page.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

/** wholeMax is the number of rows up to which a table has all of them, with lines that wrap. */
const wholeMax = 200;

/** spare is the number of rows above and below those in sight. */
const spare = 20;

interface Props<T> {
	name: string;
	head: ComponentChildren;
	columns: number;
	rows: readonly T[];
	row: (row: T) => ComponentChildren;
	keyOf: (row: T) => string;
	/** end is called when the last rows come into sight. */
	end: () => void;
}

/** Rows shows a table that scrolls. Its rows have one height if there are many. */
export function Rows<T>({ name, head, columns, rows, row, keyOf, end }: Props<T>) {
	const frame = useRef<HTMLDivElement>(null), body = useRef<HTMLTableSectionElement>(null);
	const [top, setTop] = useState(0), [height, setHeight] = useState(40), [seen, setSeen] = useState(20);
	const many = rows.length > wholeMax;
	useLayoutEffect(() => {
		const one = body.current?.rows[0];
		if (many && one && frame.current) {
			setHeight(one.getBoundingClientRect().height || 40);
			setSeen(Math.ceil(frame.current.clientHeight / 30));
		}
	}, [many]);
	const first = many ? Math.max(0, Math.min(Math.floor(top / height), rows.length - seen) - spare) : 0;
	const last = many ? Math.min(rows.length, first + seen + 2 * spare) : rows.length;
	useEffect(() => { if (last >= rows.length - spare) end(); }, [last, rows.length]);
	return (
		<div class="scroll" ref={frame} tabIndex={0} role="region" aria-label={name} onScroll={(e) => { const t = e.currentTarget; setTop(t.scrollTop); if (t.scrollTop + t.clientHeight > t.scrollHeight - 200) end(); }}>
			<table class={many ? "tuples many" : "tuples"} aria-rowcount={rows.length + 1}>
				<thead><tr>{head}</tr></thead>
				{first > 0 && <tbody aria-hidden="true"><tr class="space"><td colSpan={columns} {...{ height: first * height }} /></tr></tbody>}
				<tbody ref={body}>{rows.slice(first, last).map((r, i) => <tr key={keyOf(r)} aria-rowindex={first + i + 2}>{row(r)}</tr>)}</tbody>
				{last < rows.length && <tbody aria-hidden="true"><tr class="space"><td colSpan={columns} {...{ height: (rows.length - last) * height }} /></tr></tbody>}
			</table>
		</div>
	);
}
