package protocols

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/acp"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cmd/internal/cli"
)

// acpFlags select the collection, the policy and the actor of a command.
type acpFlags struct {
	collection, policy, actor string
}

// acpCommand returns the commands of document access control.
func (a *app) acpCommand() *cobra.Command {
	f := &acpFlags{}
	cmd := cli.Group("acp", "Document access control: policies, objects, relationships, checks, theorems",
		a.acpPolicyCommand(f), a.acpObjectCommand(f), a.acpRelationshipCommand(f), a.acpCheckCommand(f), a.acpReadableCommand(f), a.acpTheoremCommand(f))
	cmd.Long = "Document access control with the policies of acp_core and DefraDB, on a data folder.\n\n" +
		"An object is resource:id. An id with a blank, a # or a control character is in quotes, with Go's escapes: doc:\"a b\". A subject is a DID, * for everybody, resource:id, or resource:id#relation."
	p := cmd.PersistentFlags()
	p.StringVar(&f.collection, "collection", "default", "name of the collection of policies")
	p.StringVar(&f.policy, "policy", "", "id of the policy, or a prefix of it; required if there are several")
	p.StringVar(&f.actor, "as", "", "DID of the actor")
	return cmd
}

// withACP opens the collection and runs do. With create, a missing collection is
// created.
func (a *app) withACP(ctx context.Context, f *acpFlags, create bool, do func(*acp.Engine) error) error {
	if a.Server != "" {
		return cli.Unsupported("document access control")
	}
	if f.actor != "" {
		if err := acp.ValidateDID(f.actor); err != nil {
			return fmt.Errorf("--as: %w", err)
		}
	}
	return a.WithEngine(ctx, create, func(e *ostiary.Engine) (err error) {
		_, err = e.StoreByAlias(ctx, acp.Door, f.collection)
		missing := errors.Is(err, authz.ErrNoStore)
		if missing && !create {
			return fmt.Errorf("%w has the name %q: create one with \"ostiary acp policy create FILE\"", cli.ErrNoCollection, f.collection)
		}
		control, err := acp.Open(ctx, acp.Options{Engine: e, Name: f.collection})
		if err != nil {
			return err
		}
		store, err := control.Store()
		if err == nil {
			err = do(control)
		}
		if err = errors.Join(err, control.Close()); err != nil && missing { // no other process uses the store, because this one has the folder open
			err = errors.Join(err, e.DeleteStore(context.WithoutCancel(ctx), store.ID()))
		}
		return err
	})
}

// withPolicy opens the collection, finds the policy that --policy names, and runs
// do.
func (a *app) withPolicy(ctx context.Context, f *acpFlags, do func(e *acp.Engine, policy string) error) error {
	return a.withACP(ctx, f, false, func(e *acp.Engine) error {
		id, err := f.find(ctx, e, f.policy)
		if err != nil {
			return err
		}
		return do(e, id)
	})
}

// find returns the id of the only policy whose id begins with id.
func (f *acpFlags) find(ctx context.Context, e *acp.Engine, id string) (string, error) {
	var found []string
	for rec, err := range e.Policies(ctx) {
		if err != nil {
			return "", err
		}
		if strings.HasPrefix(rec.ID, id) {
			found = append(found, rec.ID)
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("%w: %q", acp.ErrPolicyNotFound, id)
	case 1:
		return found[0], nil
	}
	what := fmt.Sprintf("%d policies have ids that begin with %q", len(found), id)
	if id == "" {
		what = fmt.Sprintf("the collection has %d policies", len(found))
	}
	return "", fmt.Errorf("%w: %s: select one with --policy: %s", cli.ErrUsage, what, strings.Join(found, ", "))
}

// acpObject parses resource:id.
func acpObject(policy, text string) (acp.Object, error) {
	resource, id, ok := strings.Cut(text, ":")
	if !ok {
		return acp.Object{}, fmt.Errorf("%w: invalid object %q: expected resource:id", cli.ErrUsage, text)
	}
	if s, err := strconv.Unquote(id); err == nil { // as Object.String prints an id that is not plain
		id = s
	}
	return acp.Object{Policy: policy, Resource: resource, ID: id}, nil
}

// acpSubject parses a DID, *, resource:id or resource:id#relation.
func acpSubject(text string) (acp.Subject, error) {
	if text == acp.AllActors || strings.HasPrefix(text, "did:") {
		return acp.ActorSubject(text), nil
	}
	object, relation, set := text, "", false
	if i := strings.LastIndexByte(text, '#'); i >= 0 && !strings.HasSuffix(text, `"`) {
		object, relation, set = text[:i], text[i+1:], true
	}
	o, err := acpObject("", object)
	if err != nil || set && relation == "" {
		return acp.Subject{}, fmt.Errorf("%w: invalid subject %q: expected a DID, *, resource:id or resource:id#relation", cli.ErrUsage, text)
	}
	return acp.Subject{Resource: o.Resource, ID: o.ID, Relation: relation}, nil
}

func acpRelationship(policy string, args []string) (acp.Relationship, error) {
	o, err := acpObject(policy, args[0])
	if err != nil {
		return acp.Relationship{}, err
	}
	s, err := acpSubject(args[2])
	return acp.Relationship{Object: o, Relation: args[1], Subject: s}, err
}

// printDone prints a value that a call returned as a field with this name with
// --json, and otherwise a text about what the call did. It returns err if it is not
// nil.
func (a *app) printDone(name string, value any, text string, err error) error {
	if err != nil {
		return err
	}
	return a.Print(map[string]any{name: value}, func(w io.Writer) { cli.Println(w, text) })
}

// choose returns yes if ok is true, and no otherwise.
func choose(ok bool, yes, no string) string {
	if ok {
		return yes
	}
	return no
}

// printValue prints one value. With --json it is a field with this name.
func (a *app) printValue(name string, value any) error {
	return a.Print(map[string]any{name: value}, func(w io.Writer) { cli.Println(w, value) })
}

func (a *app) acpObjectCommand(f *acpFlags) *cobra.Command {
	// on returns a command whose first argument is an object.
	on := func(use, short string, args int, do func(ctx context.Context, e *acp.Engine, o acp.Object, args []string) error) *cobra.Command {
		return &cobra.Command{Use: use, Short: short, Args: cobra.ExactArgs(args), RunE: func(cmd *cobra.Command, args []string) error {
			return a.withPolicy(cmd.Context(), f, func(e *acp.Engine, policy string) error {
				o, err := acpObject(policy, args[0])
				if err != nil {
					return err
				}
				return do(cmd.Context(), e, o, args)
			})
		}}
	}
	return cli.Group("object", "Register, archive and transfer objects",
		on("register OBJECT", "Make --as the owner of an object", 1, func(ctx context.Context, e *acp.Engine, o acp.Object, _ []string) error {
			return a.printDone("registered", o.String(), "registered "+o.String()+", owner "+f.actor, e.Register(ctx, f.actor, o))
		}),
		on("archive OBJECT", "Remove an object's relationships; its owner stays", 1, func(ctx context.Context, e *acp.Engine, o acp.Object, _ []string) error {
			n, err := e.Archive(ctx, f.actor, o)
			return a.printDone("removed", n, fmt.Sprintf("archived %s, removed %s", o, cli.Plural(n, "relationship")), err)
		}),
		on("unarchive OBJECT", "Make an archived object active again", 1, func(ctx context.Context, e *acp.Engine, o acp.Object, _ []string) error {
			modified, err := e.Unarchive(ctx, f.actor, o)
			return a.printDone("modified", modified, choose(modified, "restored "+o.String(), "unchanged, the object is not archived: "+o.String()), err)
		}),
		on("transfer OBJECT DID", "Change the owner of an object", 2, func(ctx context.Context, e *acp.Engine, o acp.Object, args []string) error {
			return a.printDone("owner", args[1], o.String()+" has the new owner "+args[1], e.Transfer(ctx, f.actor, o, args[1]))
		}),
		on("get OBJECT", "Show an object's registration", 1, func(ctx context.Context, e *acp.Engine, o acp.Object, _ []string) error {
			r, err := e.Registration(ctx, o)
			if err != nil {
				return err
			}
			state := "active"
			if r.Archived {
				state = "archived"
			}
			return a.Print(map[string]any{"owner": r.Owner, "archived": r.Archived, "since": cli.Stamp(r.Since)}, func(w io.Writer) {
				cli.Printf(w, "%s\t%s\tsince %s\n", r.Owner, state, cli.Stamp(r.Since))
			})
		}))
}

// printResult is like printValue but returns err if it is not nil.
func (a *app) printResult(name string, value any, err error) error {
	if err != nil {
		return err
	}
	return a.printValue(name, value)
}

func (a *app) acpRelationshipCommand(f *acpFlags) *cobra.Command {
	change := func(use, short string, do func(ctx context.Context, e *acp.Engine, x acp.Relationship) error) *cobra.Command {
		return &cobra.Command{Use: use + " OBJECT RELATION SUBJECT", Short: short, Args: cobra.ExactArgs(3), RunE: func(cmd *cobra.Command, args []string) error {
			return a.withPolicy(cmd.Context(), f, func(e *acp.Engine, policy string) error {
				x, err := acpRelationship(policy, args)
				if err != nil {
					return err
				}
				return do(cmd.Context(), e, x)
			})
		}}
	}
	var object, relation, subject string
	list := &cobra.Command{Use: "list", Short: "Show relationships", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return a.withPolicy(cmd.Context(), f, func(e *acp.Engine, policy string) error {
			return a.acpList(cmd.Context(), e, policy, object, relation, subject)
		})
	}}
	list.Flags().StringVar(&object, "object", "", "show only this object: resource:id, or resource: for all of a resource")
	list.Flags().StringVar(&relation, "relation", "", "show only this relation")
	list.Flags().StringVar(&subject, "subject", "", "show only this subject")
	return cli.Group("relationship", "Share and unshare objects",
		change("set", "Give a subject a relation on an object", func(ctx context.Context, e *acp.Engine, x acp.Relationship) error {
			existed, err := e.SetRelationship(ctx, f.actor, x)
			return a.printDone("existed", existed, choose(existed, "unchanged, the relationship exists: ", "set ")+x.String(), err)
		}),
		change("delete", "Remove a relation of a subject on an object", func(ctx context.Context, e *acp.Engine, x acp.Relationship) error {
			found, err := e.DeleteRelationship(ctx, f.actor, x)
			return a.printDone("found", found, choose(found, "deleted ", "unchanged, no such relationship: ")+x.String(), err)
		}), list)
}

func (a *app) acpList(ctx context.Context, e *acp.Engine, policy, object, relation, subject string) error {
	filter := acp.RelationshipFilter{Relation: relation}
	if object != "" {
		o, err := acpObject(policy, object)
		if err != nil {
			return err
		}
		filter.Resource, filter.ID = o.Resource, o.ID
	}
	if subject != "" {
		s, err := acpSubject(subject)
		if err != nil {
			return err
		}
		filter.Subject = s
	}
	lines := []string{}
	for x, err := range e.FilterRelationships(ctx, policy, filter) {
		if err != nil {
			return err
		}
		lines = append(lines, x.String())
	}
	return a.Print(map[string]any{"relationships": lines}, func(w io.Writer) {
		for _, l := range lines {
			cli.Println(w, l)
		}
	})
}

func (a *app) acpCheckCommand(f *acpFlags) *cobra.Command {
	return &cobra.Command{Use: "check PERMISSION OBJECT", Short: "Check whether --as has a permission on an object", Args: cobra.ExactArgs(2),
		Long: "Check whether --as has a permission on an object. Without --as, the actor is anonymous.\n" +
			"The result is allow, deny, or public for an object that is not registered. The exit code is 1 for deny.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withPolicy(cmd.Context(), f, func(e *acp.Engine, policy string) error {
				o, err := acpObject(policy, args[1])
				if err != nil && strings.Contains(args[0], ":") {
					return cli.WithHint(err, fmt.Sprintf("the arguments are PERMISSION OBJECT: did you mean \"%s %s\"?", args[1], args[0]))
				}
				if err != nil {
					return err
				}
				access, err := e.Access(cmd.Context(), f.actor, args[0], o)
				if err := a.printResult("access", access.String(), err); err != nil || access != acp.Deny {
					return err
				}
				return cli.ErrDenied
			})
		}}
}

func (a *app) acpReadableCommand(f *acpFlags) *cobra.Command {
	return &cobra.Command{Use: "list PERMISSION RESOURCE", Short: "List the objects of a resource on which --as has a permission", Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withPolicy(cmd.Context(), f, func(e *acp.Engine, policy string) error {
				ids := []string{}
				for id, err := range e.Readable(cmd.Context(), f.actor, args[0], policy, args[1]) {
					if err != nil {
						return err
					}
					ids = append(ids, id)
				}
				return a.Print(map[string]any{"ids": ids}, func(w io.Writer) {
					for _, id := range ids {
						cli.Println(w, acp.Object{Resource: args[1], ID: id})
					}
				})
			})
		}}
}

func (a *app) acpTheoremCommand(f *acpFlags) *cobra.Command {
	return &cobra.Command{Use: "theorem FILE", Short: "Check a theorem against a policy and its relationships", Args: cobra.ExactArgs(1),
		Long: "Check a theorem against a policy and its relationships. The exit code is 1 if a line is not accepted.",
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := os.ReadFile(args[0])
			if err != nil {
				return err
			}
			return a.withPolicy(cmd.Context(), f, func(e *acp.Engine, policy string) error {
				r, err := e.EvaluateTheorem(cmd.Context(), policy, string(text))
				if err != nil {
					return err
				}
				if err := a.printTheorem(args[0], r); err != nil || r.OK() {
					return err
				}
				return cli.ErrDenied
			})
		}}
}

func (a *app) printTheorem(file string, r *acp.TheoremResult) error {
	type line struct {
		Line    int    `json:"line"`
		Column  int    `json:"column"`
		Verdict string `json:"verdict"`
		Claim   string `json:"claim"`
		Error   string `json:"error,omitempty"`
	}
	lines := []line{}
	add := func(c acp.ClaimResult, text string) {
		l := line{Line: c.Line, Column: c.Column, Verdict: c.Verdict.String(), Claim: text}
		if c.Err != nil {
			l.Error = c.Err.Error()
		}
		lines = append(lines, l)
	}
	for _, c := range r.Authorizations {
		add(c, c.String())
	}
	for _, c := range r.Delegations {
		add(c, c.Delegation())
	}
	out := map[string]any{"ok": r.OK(), "count": r.Count, "failures": r.Failures, "lines": lines}
	return a.Print(out, func(w io.Writer) {
		for _, l := range lines {
			cli.Printf(w, "%s:%d:%d\t%s\t%s\t%s\n", file, l.Line, l.Column, l.Verdict, l.Claim, l.Error)
		}
		cli.Printf(w, "%d of %d accepted\n", r.Count-r.Failures, r.Count)
	})
}
