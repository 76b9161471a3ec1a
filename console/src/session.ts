// What all views of a tab have in common: the key's refusal, its rights, and whether the user edits.
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Failure } from "./api";

export interface Session {
	/** refused is called with the API's refusal of the key, or of a request without one. */
	refused: (why: Failure) => void;
	/** editing is true once the user has switched to edit, until the tab is loaded again. */
	editing: boolean;
	setEditing: (on: boolean) => void;
	/** changed is called after a write; version rises with each of them. */
	changed: () => void;
	version: number;
	/** rights are those of the key on the store of the view, as the API has them. */
	rights: readonly string[];
	setRights: (rights: readonly string[] | undefined) => void;
	/** head is the newest revision that the tab knows. */
	head: number;
}

export const SessionContext = createContext<Session | null>(null);

export function useSession(): Session {
	return useContext(SessionContext)!;
}
