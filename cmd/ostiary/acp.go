package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/acp"
)

// acpFlags say who asks, and of which policy.
type acpFlags struct {
	collection, policy, actor string
}

// acpCommand is document access control.
func (a *app) acpCommand() *cobra.Command {
	f := &acpFlags{}
	cmd := group("acp", "Document access control: policies, objects, relationships, checks, theorems",
		a.acpPolicyCommand(f), a.acpObjectCommand(f), a.acpRelationshipCommand(f), a.acpCheckCommand(f), a.acpReadableCommand(f), a.acpTheoremCommand(f))
	cmd.Long = "Document access control, in the words of acp_core and DefraDB, on the folder that package acp keeps.\n\n" +
		"An object is resource:id. A subject is a DID, * for everybody, resource:id, or resource:id#relation."
	p := cmd.PersistentFlags()
	p.StringVar(&f.collection, "collection", "default", "the collection of policies")
	p.StringVar(&f.policy, "policy", "", "the policy's id, or its beginning; needed where there are several")
	p.StringVar(&f.actor, "as", "", "the DID of who asks")
	return cmd
}

var errNoCollection = errors.New("no collection of policies")

// withACP opens a collection; create makes it where there is none.
func (a *app) withACP(ctx context.Context, f *acpFlags, create bool, do func(*acp.Engine) error) error {
	if a.server != "" {
		return notSaid("document access control")
	}
	return a.withEngine(ctx, create, func(e *ostiary.Engine) (err error) {
		if _, err := e.StoreByAlias(ctx, acp.Door, f.collection); errors.Is(err, ostiary.ErrNoStore) && !create {
			return fmt.Errorf("%w called %q: \"ostiary acp policy create FILE\" makes one", errNoCollection, f.collection)
		}
		control, err := acp.Open(ctx, acp.Options{Engine: e, Name: f.collection})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, control.Close()) }()
		return do(control)
	})
}

// withPolicy opens a collection and finds the policy that --policy means.
func (a *app) withPolicy(ctx context.Context, f *acpFlags, do func(e *acp.Engine, policy string) error) error {
	return a.withACP(ctx, f, false, func(e *acp.Engine) error {
		id, err := f.find(ctx, e, f.policy)
		if err != nil {
			return err
		}
		return do(e, id)
	})
}

// find finds a policy by the beginning of its id.
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
	return "", fmt.Errorf("%w: %d policies begin with %q, --policy must say which", errUsage, len(found), id)
}

// acpObject reads resource:id.
func acpObject(policy, text string) (acp.Object, error) {
	resource, id, ok := strings.Cut(text, ":")
	if !ok {
		return acp.Object{}, fmt.Errorf("%w: object %q is not resource:id", errUsage, text)
	}
	return acp.Object{Policy: policy, Resource: resource, ID: id}, nil
}

// acpSubject reads a DID, *, resource:id or resource:id#relation.
func acpSubject(text string) (acp.Subject, error) {
	if text == acp.AllActors || strings.HasPrefix(text, "did:") {
		return acp.ActorSubject(text), nil
	}
	object, relation, set := strings.Cut(text, "#")
	o, err := acpObject("", object)
	if err != nil || set && relation == "" {
		return acp.Subject{}, fmt.Errorf("%w: subject %q is no DID, *, resource:id or resource:id#relation", errUsage, text)
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

// said prints one word or number, in JSON under a name.
func (a *app) said(name string, value any) error {
	return a.print(map[string]any{name: value}, func(w io.Writer) { fmt.Fprintln(w, value) })
}

func (a *app) acpObjectCommand(f *acpFlags) *cobra.Command {
	// on makes a command about an object.
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
	return group("object", "Register, archive and transfer objects",
		on("register OBJECT", "Make --as the owner of an object", 1, func(ctx context.Context, e *acp.Engine, o acp.Object, _ []string) error {
			return a.saidOf("registered", o.String(), e.Register(ctx, f.actor, o))
		}),
		on("archive OBJECT", "Remove an object's relationships; its owner stays", 1, func(ctx context.Context, e *acp.Engine, o acp.Object, _ []string) error {
			n, err := e.Archive(ctx, f.actor, o)
			return a.saidOf("removed", n, err)
		}),
		on("unarchive OBJECT", "Make an archived object an active one", 1, func(ctx context.Context, e *acp.Engine, o acp.Object, _ []string) error {
			modified, err := e.Unarchive(ctx, f.actor, o)
			return a.saidOf("modified", modified, err)
		}),
		on("transfer OBJECT DID", "Give an object another owner", 2, func(ctx context.Context, e *acp.Engine, o acp.Object, args []string) error {
			return a.saidOf("owner", args[1], e.Transfer(ctx, f.actor, o, args[1]))
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
			return a.print(map[string]any{"owner": r.Owner, "archived": r.Archived, "since": stamp(r.Since)}, func(w io.Writer) {
				fmt.Fprintf(w, "%s\t%s\tsince %s\n", r.Owner, state, stamp(r.Since))
			})
		}))
}

// saidOf is said, or the error.
func (a *app) saidOf(name string, value any, err error) error {
	if err != nil {
		return err
	}
	return a.said(name, value)
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
	list.Flags().StringVar(&object, "object", "", "resource:id, or resource:")
	list.Flags().StringVar(&relation, "relation", "", "a relation")
	list.Flags().StringVar(&subject, "subject", "", "a subject")
	return group("relationship", "Share and unshare objects",
		change("set", "Give a subject a relation on an object", func(ctx context.Context, e *acp.Engine, x acp.Relationship) error {
			existed, err := e.SetRelationship(ctx, f.actor, x)
			return a.saidOf("existed", existed, err)
		}),
		change("delete", "Take it away", func(ctx context.Context, e *acp.Engine, x acp.Relationship) error {
			found, err := e.DeleteRelationship(ctx, f.actor, x)
			return a.saidOf("found", found, err)
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
	return a.print(map[string]any{"relationships": lines}, func(w io.Writer) {
		for _, l := range lines {
			fmt.Fprintln(w, l)
		}
	})
}

func (a *app) acpCheckCommand(f *acpFlags) *cobra.Command {
	return &cobra.Command{Use: "check PERMISSION OBJECT", Short: "Ask whether --as has a permission on an object", Args: cobra.ExactArgs(2),
		Long: "Ask whether --as has a permission on an object; without --as, somebody without identity.\n" +
			"Answers allow, deny, or public for what is not registered. Exits with 1 if denied.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withPolicy(cmd.Context(), f, func(e *acp.Engine, policy string) error {
				o, err := acpObject(policy, args[1])
				if err != nil {
					return err
				}
				access, err := e.Access(cmd.Context(), f.actor, args[0], o)
				if err := a.saidOf("access", access.String(), err); err != nil || access != acp.Deny {
					return err
				}
				return errDenied
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
				return a.print(map[string]any{"ids": ids}, func(w io.Writer) {
					for _, id := range ids {
						fmt.Fprintln(w, id)
					}
				})
			})
		}}
}

func (a *app) acpTheoremCommand(f *acpFlags) *cobra.Command {
	return &cobra.Command{Use: "theorem FILE", Short: "Hold a theorem against a policy and what is stored", Args: cobra.ExactArgs(1),
		Long: "Hold a theorem against a policy and what is stored. Exits with 1 if a line of it is not accepted.",
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
				return errDenied
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
	return a.print(out, func(w io.Writer) {
		for _, l := range lines {
			fmt.Fprintf(w, "%s:%d:%d\t%s\t%s\t%s\n", file, l.Line, l.Column, l.Verdict, l.Claim, l.Error)
		}
		fmt.Fprintf(w, "%d of %d accepted\n", r.Count-r.Failures, r.Count)
	})
}

// acpKind is the general kind of an error of package acp, or nil.
func acpKind(err error) error {
	for _, k := range [...]error{acp.ErrInput, acp.ErrUnauthenticated, acp.ErrUnauthorized, acp.ErrForbidden, acp.ErrNotFound, acp.ErrUndecided, acp.ErrState} {
		if errors.Is(err, k) {
			return k
		}
	}
	return nil
}
