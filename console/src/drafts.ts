// What was typed into the editor of a model and is not saved yet. It is kept in the storage of the
// tab, so that another page, back and a reload do not lose it.
const prefix = "ostiary.draft ";

export interface Draft {
	text: string;
	/** of is the schema that the draft changes; "" if the store had none. */
	of: string;
}

export const drafts = {
	/** get returns the draft of a view, if the tab has one. */
	get: (view: string): Draft | undefined => {
		try {
			const { text, of } = JSON.parse(sessionStorage.getItem(prefix + view) ?? "null");
			return typeof text === "string" && typeof of === "string" ? { text, of } : undefined;
		} catch {
			return undefined;
		}
	},
	/** set keeps a draft, and returns false if the storage is full. */
	set: (view: string, draft: Draft): boolean => {
		try {
			sessionStorage.setItem(prefix + view, JSON.stringify(draft));
			return true;
		} catch {
			sessionStorage.removeItem(prefix + view); // an older text would be taken for this one
			return false;
		}
	},
	remove: (view: string) => sessionStorage.removeItem(prefix + view),
	/** forget removes all drafts. */
	forget: () => { for (const name of Object.keys(sessionStorage)) if (name.startsWith(prefix)) sessionStorage.removeItem(name); },
};
