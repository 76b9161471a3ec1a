// Why a page cannot be edited, so that the user knows it before writing.
import { useSession } from "./session";

/** locked returns why the view cannot be edited with a right, or "" if it can. */
export function useLocked(right: string, revision: string): string {
	const { editing, rights } = useSession();
	if (!rights.includes(right)) return `Read-only: the key has no right ${right} on this store.`;
	if (revision !== "") return "The past cannot be edited.";
	return editing ? "" : "Read-only: switch to edit at the top of the page.";
}
