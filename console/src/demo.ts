// The example of "ostiary demo" in a new store, by the same requests as any client sends.
import model from "./demo/model.fga";
import tuples from "./demo/tuples.yaml";
import { api, type Failure } from "./api";
import { parseFile } from "./importfile";

/** firstModel is the text with which a store without a model begins. */
export const firstModel = model;

/** makeDemo makes a store with the example, and returns its id. An error names what is there already. */
export async function makeDemo(name: string, step: (text: string) => void): Promise<string> {
	step("Creating the store");
	const store = await api.create(name);
	const part = async (text: string, make: () => Promise<unknown>) => {
		step(text);
		try {
			await make();
		} catch (e) {
			const failure = e as Failure;
			failure.message = `the store ${store.id} was created, but not all of its content: ${failure.message}`;
			throw failure;
		}
	};
	await part("Writing the model", () => api.ask(store.id, "schemas", { dialect: "openfga-dsl", source: model }, "the example of the console"));
	await part("Writing the tuples", () => api.add(store.id, parseFile("tuples.yaml", tuples).tuples, "fail", "the example of the console"));
	return store.id;
}
