package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/examples/demo"
)

// demoCommand returns the command demo, which plays the example of examples/demo.
func demoCommand(a *cli.App) *cobra.Command {
	return cli.Uses(&cobra.Command{Use: "demo", Short: "Load an example, explain decisions and ask over HTTP, in a temporary folder", Args: cobra.NoArgs,
		Long: "Load an example, explain decisions and ask over HTTP, in a temporary folder.\n\n" +
			"It prints each command before its output. The server listens on free ports of the loopback address. At the end, or when it is interrupted, nothing is left.\n" +
			"To look around in a browser, run \"ostiary console\": its button \"Create a store with the demo\" makes the same store in your data folder.",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if a.JSON {
				return fmt.Errorf("%w: \"ostiary demo\" prints a text: expected no --json", cli.ErrUsage)
			}
			signal.Ignore(syscall.SIGPIPE) // a closed output is an error of a write, so the folder is removed
			defer signal.Reset(syscall.SIGPIPE)
			folder, remove, err := cli.Temporary("ostiary-demo-")
			if err != nil {
				return fmt.Errorf("make a temporary folder: %w", err)
			}
			defer func() { err = errors.Join(err, remove()) }()
			p := &player{ctx: cmd.Context(), app: a, folder: folder}
			for name, text := range map[string][]byte{"model.fga": demo.Model(), "tuples.yaml": demo.Tuples()} {
				if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
					return err
				}
			}
			return p.play()
		}})
}

// player plays the demo. Its commands are those of the program, each with a [cli.App] of its
// own and the folder as its data; the user's variables and configuration do not count.
type player struct {
	ctx    context.Context
	app    *cli.App
	folder string
	// api is the URL of the store on the server.
	api string
}

// next is the end of the demo.
const next = `
Next, in a folder of your own
  ostiary console                         opens pages in a browser; after "Read-only" is switched to edit, their
                                          button "Create a store with the demo" makes the store of this demo
  ostiary store create acme               makes a store in ./ostiary-data
  ostiary schema write model.fga          gives it a model: the one of this demo is examples/demo/model.fga
  ostiary tuple write USER RELATION OBJECT
  ostiary explain USER RELATION OBJECT
  ostiary serve                           serves it: http://127.0.0.1:8080/ shows the doors
The page docs/start.md goes through it.
`

// play plays all parts, and ends with the first error.
func (p *player) play() error {
	const budget = `"relation":"can_view","object":"document:budget"}`
	return p.steps(
		p.title("A folder with a store, a model and tuples"),
		p.ask("store create acme"), p.ask("schema write model.fga"), p.ask("tuple import tuples.yaml"),
		p.title("Anne may view the budget, because her team is part of engineering, which may view the folder"),
		p.ask("explain user:anne can_view document:budget"),
		p.title("Bob may not view it: he is in the same team, but blocked from the budget"),
		p.ask("explain user:bob can_view document:budget"),
		p.title("The same folder with a server, which has OpenFGA's HTTP and gRPC API"),
		p.serve(
			p.title("Anne, Bob, and the auditor during and after office hours"),
			p.post("check", `{"tuple_key":{"user":"user:anne",`+budget+`}`),
			p.post("check", `{"tuple_key":{"user":"user:bob",`+budget+`}`),
			p.post("check", `{"tuple_key":{"user":"user:dora",`+budget+`,"context":{"now":"2026-11-23T10:00:00Z"}}`),
			p.post("check", `{"tuple_key":{"user":"user:dora",`+budget+`,"context":{"now":"2026-11-23T20:00:00Z"}}`),
			p.title("The documents that Bob may view, and the users who may view the budget"),
			p.post("list-objects", `{"user":"user:bob","relation":"can_view","type":"document"}`),
			p.post("list-users", `{"object":{"type":"document","id":"budget"},"relation":"can_view","user_filters":[{"type":"user"}],"context":{"now":"2026-11-23T10:00:00Z"}}`),
			p.title("A write over HTTP is on disk when the server acknowledges it: after the server stops, the folder has it"),
			p.post("write", `{"writes":{"tuple_keys":[{"user":"user:erin","relation":"viewer","object":"document:budget"}]}}`),
		),
		p.ask("check user:erin can_view document:budget"),
		func() error { return p.print("%s", next) },
	)
}

// steps takes steps one after the other until one fails or the command is interrupted.
func (p *player) steps(all ...func() error) error {
	for _, step := range all {
		err := step()
		if p.ctx.Err() != nil {
			return p.ctx.Err()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *player) print(format string, args ...any) error {
	_, err := fmt.Fprintf(p.app.Out, format, args...)
	return err
}

// title prints what the next steps show.
func (p *player) title(text string) func() error {
	return func() error { return p.print("\n%s\n", text) }
}

// run runs a command of the program, whose files are in the folder. A check that is denied is
// no failure. The errors and warnings of an interrupted command are not printed.
func (p *player) run(ctx context.Context, out io.Writer, words ...string) error {
	var notes bytes.Buffer
	variables := map[string]string{"OSTIARY_DATA": filepath.Join(p.folder, "ostiary-data")}
	a := &cli.App{In: strings.NewReader(""), Out: out, Err: &notes, Lookup: func(name string) (string, bool) {
		value, ok := variables[name]
		return value, ok
	}}
	code := run(ctx, a, words)
	if p.ctx.Err() != nil {
		return p.ctx.Err()
	}
	if _, err := p.app.Err.Write(notes.Bytes()); err != nil {
		return err
	}
	if code == cli.ExitError {
		return fmt.Errorf("the demo ends here, because \"ostiary %s\" failed", strings.Join(words, " "))
	}
	return nil
}

// ask prints a command and runs it.
func (p *player) ask(line string) func() error {
	return func() error {
		if err := p.print("$ ostiary %s\n", line); err != nil {
			return err
		}
		words := strings.Fields(line)
		if last := &words[len(words)-1]; filepath.Ext(*last) != "" {
			*last = filepath.Join(p.folder, *last)
		}
		return p.run(p.ctx, p.app.Out, words...)
	}
}

// addressOf finds the HTTP address in the line that a server prints.
var addressOf = regexp.MustCompile(`^serving http ([^, ]+),`)

// serve serves the folder on free ports while it takes steps.
func (p *player) serve(steps ...func() error) func() error {
	return func() error {
		var stores bytes.Buffer
		if err := p.run(p.ctx, &stores, "store", "list", "--json"); err != nil {
			return err
		}
		var known []struct{ ID string }
		if err := json.Unmarshal(stores.Bytes(), &known); err != nil {
			return err
		}
		if len(known) != 1 {
			return fmt.Errorf("the folder of the demo has %d stores, expected 1", len(known))
		}
		if err := p.print("$ ostiary serve &\n"); err != nil {
			return err
		}
		ctx, stop := context.WithCancel(p.ctx)
		out, in := io.Pipe()
		ended := make(chan error, 1)
		go func() {
			err := p.run(ctx, in, "serve", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--metrics", "off", "--drain-time", "0", "--log-level", "error")
			in.Close()
			ended <- err
		}()
		lines := bufio.NewReader(out)
		line, err := lines.ReadString('\n')
		go io.Copy(io.Discard, lines)
		found := addressOf.FindStringSubmatch(line)
		switch {
		case err != nil: // the server has ended, and returns the reason
		case found == nil:
			err = fmt.Errorf("the server prints %q, expected its address", line)
		default:
			p.api = "http://" + found[1] + "/stores/" + known[0].ID
			if err = p.print("%s$ API=%s\n", line, p.api); err == nil {
				err = p.steps(steps...)
			}
		}
		stop()
		if serving := <-ended; serving != nil {
			return serving
		}
		return err
	}
}

// post prints and sends a request to the store on the server.
func (p *player) post(path, body string) func() error {
	return func() error {
		if err := p.print("$ curl -s $API/%s -d '%s'\n", path, body); err != nil {
			return err
		}
		r, err := http.NewRequestWithContext(p.ctx, http.MethodPost, p.api+"/"+path, strings.NewReader(body))
		if err != nil {
			return err
		}
		transport := &http.Transport{} // the server is on this machine: no proxy
		defer transport.CloseIdleConnections()
		resp, err := transport.RoundTrip(r)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("the server answers %s: %s", resp.Status, text)
		}
		return p.print("%s\n", text)
	}
}
