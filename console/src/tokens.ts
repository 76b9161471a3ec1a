// The API names revisions by tokens; a question about nothing returns the token of a revision.
import { api } from "./api";

/** tokenOf returns the token of a revision of a store. */
export async function tokenOf(store: string, revision: number, signal: AbortSignal): Promise<string> {
	return (await api.ask(store, "what-if", { questions: [], changes: {}, at: { revision } }, "", signal)).token;
}
