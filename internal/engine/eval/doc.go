// Package eval is the evaluator of the engine. It answers check, list objects,
// list subjects, expand and explain from a compiled schema and a [Reader], with
// the meaning that docs/semantics.md defines. There is no other evaluator; the
// tests compare it with the naive one of package oracle.
//
// Its main types are [Binding], which joins a schema to the data's kinds and
// has a method for each question, [Reader], the data, and [Env], the request's
// time, context, contextual tuples and bounds. The package never writes, keeps
// no answers between questions and starts no goroutines.
//
// # Check
//
// [Binding.Check] (check.go) decides in up to three steps:
//
//  1. Contextual tuples, if there are any, are put in front of the data
//     (overlay.go). Everything below reads one Reader.
//  2. A search walks from the object towards the subject (search.go). The schema
//     is compiled to a route for each relation and subject kind (route.go): which
//     tuples to read on an object, and where they lead. A route leaves out what
//     cannot lead to that kind. Two shortcuts replace long lists: an intersection
//     with the subject's own tuples (join.go), and the set of everything that the
//     subject is in, where that is smaller (closure.go).
//  3. A search cannot decide a cycle through an intersection or an exclusion, and
//     it finds no reasons for an unknown answer. In both cases the question becomes
//     a system of equations (system.go), which is solved (fixpoint.go); reasons.go
//     explains an unknown value.
//
// Every answer has three values. Unknown comes with its reasons: missing context,
// a failed condition, a cycle through an exclusion, or a bound. query.go holds
// the state of a question and decides whether a tuple counts; conditions.go
// evaluates conditions, attributes and rules.
//
// # The fixpoint
//
// A system has one gate for each membership that the question depends on, and
// gates for the operators between them. Without exclusions its meaning is the
// least fixpoint: a cycle of tuples does not justify itself. With exclusions it is
// the well-founded model: a low world of what is certain and a high world of
// what is possible are computed in turns, each reading subtracted sides in the
// other, until neither changes. Low is true, not high is false, and the rest is
// unknown. Strongly connected components are solved one after the other, so
// only a cycle through an exclusion takes more than one round.
//
// # Lists
//
// [Binding.ListObjects] (list.go) and [Binding.ListSubjects] (list_subjects.go)
// have the same four phases:
//
//  1. Plan: the schema is read backwards from the relation (list_plan.go,
//     list_reduce.go). Lists of subjects follow the rewrite itself and need no
//     plan.
//  2. Walk: a breadth-first walk collects candidates (list_frontier.go). For
//     objects it starts at the subject (list_walk.go), for subjects at the object
//     (list_subjects.go). What is reached through unions and true conditions alone
//     is certain; what is below an intersection, an exclusion or an unknown
//     condition is uncertain.
//  3. Confirm: uncertain candidates are decided in bulk by combining sets
//     (list_confirm.go, list_confirm_subjects.go), and the rest by one check each.
//  4. Page: candidates are sorted by a hash that is the same everywhere (order.go),
//     and a page is cut (list.go, list_subjects_page.go).
//
// A relation with an attribute or a rule may hold for any object, so its list
// visits all objects of the type in the list's order instead (list_scan.go).
//
// # Expand and explain
//
// [Binding.Expand] returns the rewrite and its tuples as a [authz.Tree] (expand.go),
// and [Binding.ExpandPage] a part of it (expand_page.go);
// [authz.Tree.Member] (expand_member.go) evaluates that tree alone. [Binding.Explain]
// returns an [authz.Explanation] (explain.go): it reads a proof or a refutation from
// a solved system (explain_proof.go), over data that was narrowed to what
// concerns the subject (explain_narrow.go).
//
// # Bounds
//
// [authz.QuestionBounds] limit a question. Depth and nodes limit one evaluation, so a list may
// still decide its other candidates. The cost of conditions and the memory are
// limits for the whole question: once one is reached, the question is exhausted
// and stops. Memory is estimated (memory.go); large questions reserve it from a
// [MemoryBudget] that all questions share. The context is looked at every 4096
// nodes or steps, and before each condition. A single condition is bounded by
// its compiler. A question that takes longer than 4096 nodes or steps needs one of
// the turns that all requests share (internal/tool/turns), so that short ones find a
// free processor.
//
// # Data
//
// reader.go defines what the evaluator needs of data. A graph.View satisfies it;
// [NewReader] (rows.go) reads an embedder's own rows; [Overlay] adds contextual
// tuples. bind.go resolves names to numbers once, admit.go applies the schema's
// type restrictions. scratch.go and list_scratch.go hold the memory that
// questions reuse, so that a check allocates nothing.
package eval
