// Files that the bundle has as text.
declare module "*.fga" {
	const text: string;
	export default text;
}
declare module "*.yaml" {
	const text: string;
	export default text;
}
