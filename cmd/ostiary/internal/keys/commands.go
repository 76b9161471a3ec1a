// Package keys has the commands on the keys of callers, on a folder and on a server.
// [Commands] returns them. It never decides what a key may do.
package keys

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door/native"
	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/internal/tool/turns"
)

// app is a run of the program, with the methods of the commands of this package.
type app struct{ *cli.App }

// Commands returns the commands on keys.
func Commands(run *cli.App) []*cobra.Command {
	a := &app{run}
	cmd := cli.Group("key", "Make, show and revoke the keys of callers", a.create(), a.list(), a.show(), a.limit(), a.rotate(), a.revoke(), a.explain())
	cmd.Long = "Make, show and revoke the keys of callers.\n\n" +
		"A key has rights on stores, through doors, until it expires. The system store of the folder or server has the keys, so all nodes know them at once.\n" +
		"The first key of a new folder is made on the folder, before it is served:\n" +
		"  ostiary key create admin --stores '*' --rights admin --expires never\n" +
		"A server with --auth-keys-file makes it with one of these keys: --server URL, and the key in OSTIARY_TOKEN."
	return []*cobra.Command{cmd}
}

// expiresDefault is the life of a key without --expires.
const expiresDefault = "90d"

func (a *app) create() *cobra.Command {
	var n client.NewKey
	var match client.Match
	var limits cli.LimitFlags
	var expires, out string
	cmd := &cobra.Command{Use: "create NAME", Short: "Make a key and show its secret, once", Args: cobra.ExactArgs(1),
		Long: "Make a key and show its secret, once. The secret is kept nowhere: only its hash is.\n" +
			"With --match-certificate, the key has no secret: those who call with a client certificate that has this name may do what its scope has.\n" +
			"With --match-issuer, --match-claim and --match-value, the key has no secret: those who call with a token of the issuer whose claim has the value may do what its scope has.\n" +
			"A key that calls can only make keys within its own scope: it needs the right admin on their stores, their doors, and an expiry that is not earlier.\n" +
			"Unless it has admin on *, it names them after itself: the key team makes team~NAME.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if n.Name = args[0]; match != (client.Match{}) {
				n.Match = &match
			}
			var err error
			if n.Expires, err = parseExpiry(expires, time.Now()); err != nil {
				return err
			}
			if limits.Set() {
				n.Limits = &turns.Limits{}
				if err := limits.Change(n.Limits); err != nil {
					return err
				}
			}
			return a.WithClient(cmd.Context(), true, cli.GuardFolder, func(c *client.Client) error {
				return a.secretTo(out, func() (client.Key, error) {
					made, err := c.CreateKey(cmd.Context(), n)
					if err == nil && a.Server == "" {
						made.Warnings = append(made.Warnings, a.onlyLesser(cmd.Context(), c, made)...)
					}
					return made, cli.NativeMissing(err)
				})
			})
		}}
	s := cmd.Flags()
	s.StringSliceVar(&n.Stores, "stores", nil, "stores: their ids, DOOR/ALIAS, names, beginnings of names with a star (team-*), or * for all but the system store")
	s.StringSliceVar(&n.Rights, "rights", nil, "rights: read, write (tuples and policies), schema, admin (all, and create, rename, delete, keys); each includes read")
	s.StringSliceVar(&n.Doors, "doors", nil, "doors: "+strings.Join(cli.DoorNames[:], ", ")+", metrics (--metrics-tls); default: all")
	s.StringVar(&n.Owner, "owner", "", "whom to ask about the key; default: the caller")
	s.StringVar(&expires, "expires", expiresDefault, "when the key ends: a duration (90d, 12h), a time (RFC 3339), or never")
	s.StringVar(&match.Issuer, "match-issuer", "", "make a key without a secret, for callers with tokens of this --auth-oidc-issuer")
	s.StringVar(&match.Claim, "match-claim", "", "name of the claim that such a token has, for example groups, or the path to one inside of others: /realm_access/roles")
	s.StringVar(&match.Value, "match-value", "", "value that the claim has, or that its list contains")
	s.StringVar(&n.MatchCertificate, "match-certificate", "", "make a key without a secret, for callers with a client certificate (--tls-client-ca) that has this alternative name: uri:URI, uri:URI/*, dns:NAME or email:ADDRESS")
	s.StringVar(&out, "out", "", outUsage)
	limits.Add(s)
	cmd.MarkFlagRequired("stores")
	cmd.MarkFlagRequired("rights")
	return cmd
}

// onlyLesser returns a warning if the key that was made is the only one of a folder, and does
// not administer all stores.
func (a *app) onlyLesser(ctx context.Context, c *client.Client, made client.Key) []string {
	keys, err := c.Keys(ctx)
	if err != nil || slices.ContainsFunc(keys, func(k client.Key) bool { return k.ID != made.ID && !k.Expired }) {
		return nil // the key is made, and its secret is worth more than the warning
	}
	if slices.Contains(made.Rights, "admin") && slices.Contains(made.Stores, "*") && (slices.Contains(made.Doors, "*") || slices.Contains(made.Doors, native.Name)) {
		return nil
	}
	return []string{"this is the only key, and it does not administer all stores: once the folder is served with keys, no caller can make, change or revoke keys there. " +
		"Make one that can, on the folder: ostiary key create admin --stores '*' --rights admin --expires never"}
}

// parseExpiry reads a duration from now, a time, or "never".
func parseExpiry(text string, now time.Time) (*time.Time, error) {
	if text == "never" {
		return nil, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return &at, nil
	}
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok && err != nil {
		var n int
		n, err = strconv.Atoi(days)
		d = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || d <= 0 {
		return nil, fmt.Errorf("%w: invalid --expires %q: expected a duration (90d, 12h), a time (2027-01-02T15:04:05Z), or never", cli.ErrUsage, text)
	}
	at := now.Add(d).UTC().Truncate(time.Second)
	return &at, nil
}

// printMade prints a key that was made or rotated. Only the secret is on the output, so
// that a script can keep it; the rest is a note.
func (a *app) printMade(k client.Key) error {
	for _, text := range k.Warnings {
		a.Note("warning: %s", text)
	}
	if !a.JSON && k.Secret != "" {
		a.Note("key %s, id %s, expires %s; this is the only time that its secret is shown:", k.Name, k.ID, expiryText(k))
	}
	return a.Print(k, func(w io.Writer) {
		if k.Secret == "" {
			cli.Printf(w, "made key %s, id %s, expires %s\n", k.Name, k.ID, expiryText(k))
			return
		}
		cli.Println(w, k.Secret)
	})
}

func expiryText(k client.Key) string {
	switch {
	case k.Expires == nil:
		return "never"
	case k.Expired:
		return k.Expires.Format(time.RFC3339) + " (expired)"
	}
	return k.Expires.Format(time.RFC3339)
}

func (a *app) list() *cobra.Command {
	return &cobra.Command{Use: "list", Short: "List the keys", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return a.WithClient(cmd.Context(), false, cli.GuardFolder, func(c *client.Client) error {
			keys, err := c.Keys(cmd.Context())
			if err != nil {
				return cli.NativeMissing(err)
			}
			return a.Print(keys, func(w io.Writer) {
				limited := slices.ContainsFunc(keys, func(k client.Key) bool { return k.Limits != nil })
				cli.Printf(w, "NAME\tOWNER\tSTORES\tRIGHTS\tDOORS\tEXPIRES")
				if limited {
					cli.Printf(w, "\tLIMITS")
				}
				cli.Printf(w, "\n")
				for _, k := range keys {
					cli.Printf(w, "%s\t%s\t%s\t%s\t%s\t%s", k.Name, k.Owner, strings.Join(k.Stores, ","), strings.Join(k.Rights, ","), strings.Join(k.Doors, ","), expiryText(k))
					if limited {
						cli.Printf(w, "\t%s", k.Limits.String())
					}
					cli.Printf(w, "\n")
				}
			})
		})
	}}
}

func (a *app) show() *cobra.Command {
	return &cobra.Command{Use: "show NAME", Short: "Show a key, without its secret", Args: cobra.ExactArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
		return a.WithClient(cmd.Context(), false, cli.GuardFolder, func(c *client.Client) error {
			k, err := c.Key(cmd.Context(), args[0])
			if err != nil {
				return cli.NativeMissing(err)
			}
			return a.Print(k, func(w io.Writer) {
				cli.Printf(w, "name\t%s\nid\t%s\nowner\t%s\nmade\t%s by %s\nexpires\t%s\nstores\t%s\nrights\t%s\ndoors\t%s\n", k.Name, k.ID, k.Owner,
					k.Created.Format(time.RFC3339), k.Creator, expiryText(k), strings.Join(k.Stores, ", "), strings.Join(k.Rights, ", "), strings.Join(k.Doors, ", "))
				if k.MatchCertificate != "" {
					cli.Printf(w, "certificates\t%s\n", k.MatchCertificate)
				} else if m := k.Match; m != nil {
					cli.Printf(w, "tokens\t%s=%s of %s\n", m.Claim, m.Value, m.Issuer)
				} else {
					cli.Printf(w, "secrets\t%d\n", k.Secrets)
				}
				if k.Limits != nil {
					cli.Printf(w, "limits\t%s\n", k.Limits.String())
				}
			})
		})
	}}
}

// limit shows or sets the limits of a key.
func (a *app) limit() *cobra.Command {
	var flags cli.LimitFlags
	cmd := &cobra.Command{Use: "limit NAME", Short: "Show or set how much the callers of a key may use", Args: cobra.ExactArgs(1),
		Long: "Show or set how much the callers of a key may use together, with those of the keys that it has made: requests, and processor time, in a second.\n" +
			"A limit that no flag names stays. A caller whose limit is used up gets 429 (RESOURCE_EXHAUSTED over gRPC), and when to try again. Each node counts for itself.\n" +
			"A key does not set its own limits, unless it has admin on *.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.WithClient(cmd.Context(), false, cli.GuardFolder, func(c *client.Client) error {
				limits, err := limitsOf(cmd.Context(), c, args[0])
				if err == nil && flags.Set() {
					if err = flags.Change(&limits); err == nil {
						_, err = c.Call(cmd.Context(), http.MethodPut, "/ostiary/v1/keys/"+url.PathEscape(args[0])+"/limits", &limits, nil)
					}
				}
				if err != nil {
					return cli.NativeMissing(err)
				}
				return a.Print(&limits, func(w io.Writer) { cli.Printf(w, "limits of key %s\t%s\n", args[0], limits.String()) })
			})
		}}
	flags.Add(cmd.Flags())
	return cmd
}

// limitsOf returns the limits of the key with a name, also of one that is none of the system
// store.
func limitsOf(ctx context.Context, c *client.Client, name string) (limits turns.Limits, err error) {
	var all struct {
		Limits []struct {
			Key    string
			Limits turns.Limits
		}
	}
	_, err = c.Call(ctx, http.MethodGet, "/ostiary/v1/limits", nil, &all)
	for _, l := range all.Limits {
		if l.Key == name {
			limits = l.Limits
		}
	}
	return limits, err
}

func (a *app) rotate() *cobra.Command {
	var keep time.Duration
	var out string
	cmd := &cobra.Command{Use: "rotate NAME", Short: "Give a key a new secret and show it, once", Args: cobra.ExactArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
		return a.WithClient(cmd.Context(), false, cli.GuardFolder, func(c *client.Client) error {
			return a.secretTo(out, func() (client.Key, error) {
				made, err := c.RotateKey(cmd.Context(), args[0], keep)
				return made, cli.NativeMissing(err)
			})
		})
	}}
	cmd.Flags().StringVar(&out, "out", "", outUsage)
	cmd.Flags().DurationVar(&keep, "keep", 0, "how long the old secret is accepted as well; 0 ends it at once")
	return cmd
}

func (a *app) revoke() *cobra.Command {
	return &cobra.Command{Use: "revoke NAME", Short: "End a key, and the streams of its callers", Args: cobra.ExactArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
		return a.WithClient(cmd.Context(), false, cli.GuardFolder, func(c *client.Client) error {
			if err := c.RevokeKey(cmd.Context(), args[0]); err != nil {
				return cli.NativeMissing(err)
			}
			return a.Print(struct {
				Revoked string `json:"revoked"`
			}{args[0]}, func(w io.Writer) { cli.Printf(w, "revoked key %s\n", args[0]) })
		})
	}}
}

func (a *app) explain() *cobra.Command {
	var q client.KeyQuestion
	var revision uint64
	cmd := &cobra.Command{Use: "explain NAME", Short: "Show whether a key has a right on a store, and why", Args: cobra.ExactArgs(1),
		Long: "Show whether a key has a right on a store, and why. The exit code is 1 if it has not.\n" +
			"The key and the store have their names in the answer, and their ids with --json.\n" +
			"The answer is a check in the system store: store ID, relation read, write, schema or admin.",
		RunE: func(cmd *cobra.Command, args []string) error {
			q.Store, q.Text = a.Store, true
			if q.Store == "" && q.Door == "" {
				return fmt.Errorf("%w: expected --store, --door, or both", cli.ErrUsage)
			}
			if cmd.Flags().Changed("revision") {
				q.At = &client.At{Revision: &revision}
			}
			return a.WithClient(cmd.Context(), false, cli.GuardFolder, func(c *client.Client) error {
				text, err := c.ExplainKey(cmd.Context(), args[0], q)
				if err != nil {
					return cli.NativeMissing(err)
				}
				return a.printExplanation(text)
			})
		}}
	s := cmd.Flags()
	s.StringVar(&q.Right, "right", "read", "the right: read, write, schema or admin")
	s.StringVar(&q.Door, "door", "", "the door that the key uses")
	s.Uint64Var(&revision, "revision", 0, "ask at an earlier revision of the system store")
	return cmd
}

// printExplanation prints an answer about a key. It fails with cli.ErrDenied for a denial.
func (a *app) printExplanation(text json.RawMessage) error {
	var out struct {
		Allowed bool
		Answers []struct{ Text string }
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return err
	}
	err := a.Print(text, func(w io.Writer) {
		for _, answer := range out.Answers {
			cli.PrintLines(w, strings.TrimSpace(answer.Text)+"\n")
		}
	})
	if err == nil && !out.Allowed {
		err = cli.ErrDenied
	}
	return err
}
