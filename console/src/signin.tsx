// Signing in with a key. The key goes into the storage of the tab, and nowhere else.
import { key, type Failure } from "./api";
import { Trouble } from "./load";

export function SignIn({ error, done }: { error: Failure | undefined; done: () => void }) {
	return (
		<main id="main" class="signin">
			<h1>Sign in</h1>
			<p>This server needs a key. It stays in this tab until you sign out or close it, and the console can do only what the key may do.</p>
			<form
				class="fields"
				onSubmit={(e) => {
					e.preventDefault();
					const field = e.currentTarget.elements.namedItem("key") as HTMLInputElement;
					key.set(field.value.trim());
					field.value = "";
					done();
				}}
			>
				<label class="field"><span>Key</span><input name="key" type="password" required autocomplete="off" spellcheck={false} /></label>
				<button type="submit" class="main">Sign in</button>
			</form>
			<Trouble error={error} />
			<p class="soft">An operator makes a key with <code>ostiary key create</code>.</p>
		</main>
	);
}
