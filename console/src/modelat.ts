// The schema of a view: the one that its URL names, or the newest one that was written by then.
import { api, type Schema } from "./api";

export interface ModelAt {
	schema?: Schema;
	others: Schema[]; // all schemas of the store, newest first, without their texts
}

/** modelAt loads the schema with an id, or for "" the one of a revision; a revision of "" is now. */
export async function modelAt(store: string, id: string, revision: string, signal: AbortSignal): Promise<ModelAt> {
	const { schemas } = await api.schemas(store, signal);
	const newest = revision === "" ? schemas[0] : schemas.find((s) => s.revision <= Number(revision));
	const wanted = id || newest?.id;
	if (!wanted) return { others: schemas };
	const schema = await api.schema(store, wanted, "", signal);
	return { schema, others: schemas };
}
