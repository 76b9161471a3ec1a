// Package auditing has the commands on the audit logs of servers: they verify its files,
// and make the key that signs them. [Commands] returns them. It writes no record: the log
// is in internal/trail/audit.
package auditing

import (
	"bufio"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/internal/trail/audit"
)

// app is a run of the program, with the methods of the commands of this package.
type app struct{ *cli.App }

// Commands returns the command audit with its subcommands.
func Commands(run *cli.App) []*cobra.Command {
	a := &app{run}
	return []*cobra.Command{cli.Group("audit", "Verify the audit log of a server", a.verifyCommand(), a.keyCommand())}
}

func (a *app) verifyCommand() *cobra.Command {
	var keys, against []string
	var running bool
	cmd := &cobra.Command{Use: "verify FOLDER|FILE…", Short: "Find out whether an audit log was changed", Args: cobra.MinimumNArgs(1),
		Long: "Verify the files of one audit log, in their order, or all files of a folder: hashes, order, signatures, and whether a file or an end is missing.\n" +
			"Files that were removed or replaced while the server was stopped are found with --against: the server logs the signed head of the audit log when it starts and stops, and each hour.\n" +
			"The exit code is 0 if nothing is wrong, and 1 if something was changed, removed, added or reordered.",
		Example: "  ostiary audit verify --key audit.key.pub /var/log/ostiary-audit\n" +
			"  journalctl --unit ostiary --grep 'audit head' > heads && ostiary audit verify --key audit.key.pub --against heads /var/log/ostiary-audit",
		RunE: func(_ *cobra.Command, args []string) error {
			o := audit.VerifyOptions{Running: running}
			if len(keys) == 0 {
				return fmt.Errorf("%w: expected --key FILE, the public key of the server that wrote the log", cli.ErrUsage)
			}
			for _, file := range keys {
				key, err := publicKey(file)
				if err != nil {
					return err
				}
				o.Keys = append(o.Keys, key)
			}
			for _, value := range against {
				heads, err := headsIn(value)
				if err != nil {
					return err
				}
				o.Heads = append(o.Heads, heads...)
			}
			files, err := cli.Files(args, filesIn)
			if err != nil {
				return err
			}
			out, err := verifyLogs(files, o, holdsFolder(args))
			if err != nil {
				return err
			}
			if err := a.Print(out, out.print); err != nil {
				return err
			}
			if len(out.Findings) > 0 || out.Refusals != nil && len(out.Refusals.Findings) > 0 {
				return cli.ErrDenied
			}
			return nil
		}}
	s := cmd.Flags()
	s.StringArrayVar(&keys, "key", nil, "PEM file of the public key that signed the log; may be repeated after a change of the key")
	s.StringArrayVar(&against, "against", nil, "HEAD that the server logged (NAME/LOG/NUMBER/HASH/SIGNATURE), or a FILE with lines that have heads, such as the server's log: the audit log must have their records; may be repeated")
	s.BoolVar(&running, "running", false, "the server still writes the last file: what follows its last signed record is not proved")
	return cmd
}

// publicKey reads the file of a public key.
func publicKey(file string) (ed25519.PublicKey, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	key, err := audit.ParsePublic(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return key, nil
}

// holdsFolder reports whether one of the names is that of a folder.
func holdsFolder(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		info, err := os.Stat(name)
		return err == nil && info.IsDir()
	})
}

// verifyLogs verifies the files of a log, and those of its refusals, which are a log of
// their own. whole is true if the files are all of a folder, so that a log that has heads
// must have files.
func verifyLogs(files []string, o audit.VerifyOptions, whole bool) (*verified, error) {
	ofRefusals := func(file string) bool {
		return strings.HasPrefix(filepath.Base(file), audit.RefusalsName+"-")
	}
	notOfRefusals := func(file string) bool { return !ofRefusals(file) }
	records, refusals := slices.DeleteFunc(slices.Clone(files), ofRefusals), slices.DeleteFunc(slices.Clone(files), notOfRefusals)
	recordsOptions, refusalsOptions := o, o
	recordsOptions.Heads = slices.DeleteFunc(slices.Clone(o.Heads), func(h audit.Head) bool { return h.Name == audit.RefusalsName })
	refusalsOptions.Heads = slices.DeleteFunc(slices.Clone(o.Heads), func(h audit.Head) bool { return h.Name != audit.RefusalsName })
	out := &verified{Notes: []string{}, Findings: []string{}}
	if len(records) > 0 || whole {
		got, err := audit.Verify(records, recordsOptions)
		if err != nil {
			return nil, err
		}
		out = newVerified(got, len(records))
	}
	if len(refusals) > 0 || whole && len(refusalsOptions.Heads) > 0 {
		got, err := audit.Verify(refusals, refusalsOptions)
		if err != nil {
			return nil, err
		}
		out.Refusals = newVerified(got, len(refusals))
	}
	return out, nil
}

// headsIn returns the heads in a text, or in the file with this name. It fails if there are
// none.
func headsIn(value string) ([]audit.Head, error) {
	if heads := audit.Heads(value); len(heads) > 0 {
		return heads, nil
	}
	f, err := os.Open(value)
	if err != nil {
		return nil, fmt.Errorf("%w: invalid value %q of --against: expected a head (NAME/LOG/NUMBER/HASH/SIGNATURE) or a file: %w", cli.ErrUsage, value, err)
	}
	defer f.Close()
	var heads []audit.Head
	seen := map[string]bool{}
	for r := bufio.NewReader(f); ; {
		line, err := r.ReadString('\n')
		for _, h := range audit.Heads(line) {
			if text := h.String(); !seen[text] {
				seen[text] = true
				heads = append(heads, h)
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	if len(heads) == 0 {
		return nil, fmt.Errorf("%w: --against: %s has no head of an audit log: expected lines of the server's log with NAME/LOG/NUMBER/HASH/SIGNATURE", cli.ErrUsage, value)
	}
	return heads, nil
}

// filesIn returns the files of the audit log in a folder. It fails if there are none.
func filesIn(folder string) ([]string, error) {
	files, err := audit.Folder(folder)
	if err != nil {
		return nil, err
	}
	refusals, err := audit.FolderOf(folder, audit.RefusalsName)
	files = append(files, refusals...)
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%w: %s has no file of an audit log", cli.ErrUsage, folder)
	}
	return files, err
}

// verified is the result of the command verify.
type verified struct {
	Log      string   `json:"log"`
	Files    int      `json:"files"`
	Records  int      `json:"records"`
	First    uint64   `json:"first"`
	Last     uint64   `json:"last"`
	Hash     string   `json:"hash"`
	Signed   uint64   `json:"signed"`
	SignedAt string   `json:"signedAt,omitempty"`
	Lost     int      `json:"lost"`
	Heads    int      `json:"heads"` // with which the files were compared
	Notes    []string `json:"notes"`
	Findings []string `json:"findings"`
	// Refusals is the result of the log of refusals.
	Refusals *verified `json:"refusals,omitempty"`
}

func newVerified(v *audit.Verified, files int) *verified {
	out := &verified{Log: v.Log, Files: files, Records: v.Lines, First: v.First, Last: v.Last, Hash: v.Hash, Signed: v.Signed, Lost: v.Lost, Heads: v.Heads,
		Notes: []string{}, Findings: []string{}}
	if v.Signed > 0 {
		out.SignedAt = v.SignedAt.Format(time.RFC3339)
	}
	for _, f := range v.Notes {
		out.Notes = append(out.Notes, f.String())
	}
	for _, f := range v.Findings {
		out.Findings = append(out.Findings, f.String())
	}
	return out
}

func (v *verified) print(w io.Writer) {
	v.printLog(w, "")
	if v.Refusals != nil {
		v.Refusals.printLog(w, " of refusals")
	}
}

// printLog prints the result of one log.
func (v *verified) printLog(w io.Writer, of string) {
	for _, text := range v.Notes {
		cli.Println(w, "note:", text)
	}
	for _, text := range v.Findings {
		cli.Println(w, text)
	}
	if len(v.Findings) == 0 && v.Records > 0 {
		cli.Printf(w, "verified %s%s in %s: records %d to %d, signed up to %d at %s, compared with %s\n", cli.Plural(v.Records, "record"), of, cli.Plural(v.Files, "file"), v.First, v.Last, v.Signed, v.SignedAt, cli.Plural(v.Heads, "head"))
	}
}

func (a *app) keyCommand() *cobra.Command {
	return &cobra.Command{Use: "key FILE", Short: "Print the public key of a key that signs audit logs, and make the key if it does not exist", Args: cobra.ExactArgs(1),
		Long: "Print the public key of a private key in PEM. A missing file is made, with the public key in FILE.pub.\n" +
			"serve --audit-key FILE uses the private key. Keep the public key where the server cannot change it.",
		RunE: func(_ *cobra.Command, args []string) error {
			if err := cli.CheckKeysMode(args[0]); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			key, err := audit.Key(args[0])
			if err != nil {
				return err
			}
			text, err := audit.PublicPEM(key.Public().(ed25519.PublicKey))
			if err != nil {
				return err
			}
			return a.Print(map[string]string{"publicKey": string(text)}, func(w io.Writer) { cli.PrintLines(w, string(text)) })
		}}
}
