package protocols

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/internal/engine/domain"
	"github.com/ostiary/ostiary/policy/language"
)

// loadedJSON is the result of loading policies.
type loadedJSON struct {
	Revision uint64 `json:"revision"`
	Policies int    `json:"policies"`
	Root     bool   `json:"root"`
	Removed  int    `json:"removed"`
}

// olderRootName is the name of the root that load had as its default before [rootName].
const olderRootName = "root"

func (a *app) xacmlLoad() *cobra.Command {
	var root string
	var replace bool
	cmd := &cobra.Command{Use: "load FOLDER", Short: "Load the policies of a folder into a policy domain", Args: cobra.ExactArgs(1),
		Long: "Load the policies of a folder into a policy domain, in one change: either all of them decide afterwards, or none.\n" +
			"The name of each policy is that of its file without the end. The policy with the name --root becomes the root;\n" +
			"without it, the domain must have a root already.\n" +
			"With --store, the domain is that of a relation store, which the policies may ask, or the store that is a domain itself;\n" +
			"otherwise it is the default domain. Text (.alfa) is stored as JSON.",
		RunE: func(cmd *cobra.Command, args []string) error {
			change, err := readChange(cmd.Context(), args[0], root)
			if err == nil && change.Root == nil && !cmd.Flags().Changed("root") {
				change, err = readChange(cmd.Context(), args[0], olderRootName)
			}
			if err != nil {
				return err
			}
			if change.Root == nil && cmd.Flags().Changed("root") {
				return fmt.Errorf("%s has no policy with the name %s: expected one of %s", args[0], root, strings.Join(slices.Sorted(maps.Keys(change.Put)), ", "))
			}
			if change.Root == nil && replace {
				return fmt.Errorf("%w: --replace removes the root, and %s has no policy with the name %s: name the new root with --root: expected one of %s", cli.ErrUsage, args[0], root, strings.Join(slices.Sorted(maps.Keys(change.Put)), ", "))
			}
			noRoot := fmt.Errorf("%w: the policy domain has no root, and %s has no policy with the name %s: name the root with --root: expected one of %s", cli.ErrUsage, args[0], root, strings.Join(slices.Sorted(maps.Keys(change.Put)), ", "))
			change.Clear = replace
			out := loadedJSON{Policies: len(change.Put), Root: change.Root != nil}
			if a.Server != "" {
				err = a.WithClient(cmd.Context(), false, nil, func(c *client.Client) error { return a.sendPolicies(cmd.Context(), c, change, noRoot, &out) })
			} else {
				err = a.loadPolicies(cmd.Context(), change, noRoot, &out)
			}
			if err != nil {
				return err
			}
			return a.Print(out, func(w io.Writer) {
				text := cli.PluralOf(out.Policies, "policy", "policies")
				if out.Root {
					text += " and the root"
				}
				cli.Printf(w, "loaded %s at revision %d, removed %d\n", text, out.Revision, out.Removed)
				if !out.Root {
					cli.Printf(w, "no policy has the name %s, so the root is the same as before: name another one with --root\n", root)
				}
			})
		}}
	cmd.Flags().StringVar(&root, "root", rootName, "the name of the root policy, without the end of its file; without the flag also "+olderRootName)
	cmd.Flags().BoolVar(&replace, "replace", false, "remove all other policies, and the present root, in the same change; the folder must have the new root")
	return cmd
}

// readChange reads the policies of a folder.
func readChange(ctx context.Context, folder, root string) (domain.Change, error) {
	files, err := policiesIn(folder)
	if err != nil {
		return domain.Change{}, err
	}
	change := domain.Change{Put: map[string]domain.Source{}}
	for _, file := range files {
		source, err := readSource(ctx, file)
		if err != nil {
			return change, err
		}
		name := policyName(file)
		_, twice := change.Put[name]
		switch {
		case strings.EqualFold(name, root) && change.Root == nil:
			change.Root = &source
		case twice || strings.EqualFold(name, root):
			return change, fmt.Errorf("%s has two policies with the name %s: expected one", folder, name)
		default:
			change.Put[name] = source
		}
	}
	return change, nil
}

// readSource reads a policy as a domain stores it.
func readSource(ctx context.Context, file string) (domain.Source, error) {
	e, err := readPolicy(ctx, file)
	if err != nil {
		return domain.Source{}, err
	}
	kind := domain.Language(policyLanguages[strings.ToLower(file[strings.LastIndexByte(file, '.'):])])
	if kind == "text" {
		text, err := language.PrintJSON(e)
		return domain.Source{Language: domain.JSON, Text: text}, err
	}
	text, err := cli.ReadFile(file, language.TextBytesMax+1)
	return domain.Source{Language: kind, Text: text}, err
}

// loadPolicies changes a domain in the data folder. It fails with noRoot if the domain would
// have no root, and so would decide nothing.
func (a *app) loadPolicies(ctx context.Context, change domain.Change, noRoot error, out *loadedJSON) error {
	return a.WithEngine(ctx, true, func(e *ostiary.Engine) error {
		d, err := a.policyDomain(ctx, e)
		if err != nil {
			return err
		}
		if change.Root == nil {
			p, err := d.Pin(ctx, domain.PinOptions{})
			if err != nil {
				return err
			}
			if p.Root() == nil {
				return noRoot
			}
		}
		done, err := d.Change(ctx, change)
		out.Revision, out.Removed = uint64(done.Revision), done.Removed
		return err
	})
}

// policyDomain returns the domain that --store names, or the default one.
func (a *app) policyDomain(ctx context.Context, e *ostiary.Engine) (*domain.Domain, error) {
	domains, err := domain.NewRegistry(e, domain.Options{})
	if err != nil {
		return nil, err
	}
	if a.Store == "" {
		return domains.Default(ctx, nil)
	}
	s, err := cli.FindStore(ctx, e, a.Store)
	if err != nil {
		return nil, err
	}
	return domains.FindOrMake(ctx, s.ID().String())
}

// sendPolicies changes a domain of a server, like loadPolicies.
func (a *app) sendPolicies(ctx context.Context, c *client.Client, change domain.Change, noRoot error, out *loadedJSON) error {
	path := "/xacml/v3/policies"
	if a.Store != "" {
		s, err := cli.Find(ctx, cli.NativeStores{Client: c}, a.Store)
		if err != nil {
			return err
		}
		path = "/stores/" + url.PathEscape(s.ID) + path
	}
	if change.Root == nil {
		var found struct {
			Root *struct{} `json:"root"`
		}
		_, err := c.Call(ctx, http.MethodGet, path+"?limit=1", nil, &found)
		if at, ok := errors.AsType[*client.Error](err); ok && at.Status == http.StatusNotFound {
			err = nil // the change makes the domain
		}
		if err != nil {
			return err
		}
		if found.Root == nil {
			return noRoot
		}
	}
	put := map[string]any{}
	for name, source := range change.Put {
		put[name] = sourceJSON(source)
	}
	in := map[string]any{"put": put}
	if change.Clear {
		in["clear"] = true
	}
	if change.Root != nil {
		in["root"] = sourceJSON(*change.Root)
	}
	_, err := c.Call(ctx, http.MethodPost, path, in, out)
	return err
}

func sourceJSON(s domain.Source) map[string]string {
	return map[string]string{"language": string(s.Language), "text": string(s.Text)}
}
