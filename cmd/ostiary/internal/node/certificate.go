package node

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/internal/cluster/certificate"
)

// daysMax bounds both periods of validity, in days: a century.
const daysMax = 36_525

// certificateFlags are the settings of ostiary node certificate.
type certificateFlags struct {
	folder          string
	days, authority int
	renew           bool
}

func (a *app) certificateCommand() *cobra.Command {
	var f certificateFlags
	cmd := &cobra.Command{Use: "certificate NAME[,NAME…] …", Short: "Make certificates with which nodes know each other", Args: cobra.MinimumNArgs(1),
		Long: "Make a certificate for each node. An argument has the host names and IP addresses under which the other nodes reach it,\n" +
			"as in --nodes-address, separated by commas. The first call makes a small authority, ca.crt and ca.key, which signs them.\n" +
			"ca.key is all that it takes to make a node of this cluster: keep it where no node runs. Certificates of an own authority work too.\n" +
			"With --renew, the certificate and the key of the named nodes are replaced; a running node reads them on SIGHUP.",
		Example: "  ostiary node certificate node1.example node2.example,192.0.2.2 node3.example\n  ostiary node certificate --renew node2.example,192.0.2.2",
		RunE: func(_ *cobra.Command, args []string) error {
			made, err := f.make(args, time.Now())
			if err != nil {
				return err
			}
			return a.Print(made, made.print)
		}}
	s := cmd.Flags()
	s.StringVar(&f.folder, "folder", "node-certificates", "folder of the authority and of the certificates; it is created")
	cli.CountVar(s, &f.days, "days", 1, 397, "days for which the certificates are valid")
	cli.CountVar(s, &f.authority, "authority-days", 1, 3653, "days for which a new authority is valid; no certificate is valid for longer")
	s.BoolVar(&f.renew, "renew", false, "replace certificates that exist")
	return cmd
}

// madeFiles is the result of the command.
type madeFiles struct {
	Authority    string            `json:"authority"`    // file of the certificate
	AuthorityKey string            `json:"authorityKey"` // file of the key
	NewAuthority bool              `json:"newAuthority"`
	Until        time.Time         `json:"authorityUntil"`
	Nodes        []madeCertificate `json:"nodes"`
}

type madeCertificate struct {
	Names       []string  `json:"names"`
	Certificate string    `json:"certificate"`
	Key         string    `json:"key"`
	Until       time.Time `json:"until"`
}

func (m *madeFiles) print(w io.Writer) {
	if m.NewAuthority {
		cli.Printf(w, "made the authority %s, valid until %s\n", m.Authority, m.Until.Format(time.DateOnly))
		cli.Printf(w, "keep its key %s on no node: it makes certificates of this cluster\n", m.AuthorityKey)
	}
	for _, n := range m.Nodes {
		cli.Printf(w, "made a certificate for %s, valid until %s\n", strings.Join(n.Names, ", "), n.Until.Format(time.DateOnly))
		cli.Printf(w, "copy to %s: %s, %s, %s\n", n.Names[0], m.Authority, n.Certificate, n.Key)
	}
	cli.Printf(w, "a node gets the copies with --nodes-ca, --nodes-certificate and --nodes-key\n")
}

// make makes what the arguments name. It writes nothing if an argument is wrong.
func (f *certificateFlags) make(args []string, now time.Time) (*madeFiles, error) {
	if n := max(f.days, f.authority); n > daysMax {
		return nil, fmt.Errorf("%w: a validity of %d days: expected at most %d", cli.ErrUsage, n, daysMax)
	}
	made := &madeFiles{Authority: filepath.Join(f.folder, "ca.crt"), AuthorityKey: filepath.Join(f.folder, "ca.key")}
	authority, pair, err := readAuthority(made)
	made.NewAuthority = errors.Is(err, fs.ErrNotExist)
	if made.NewAuthority {
		authority, pair, err = certificate.NewAuthority(now, now.AddDate(0, 0, f.authority))
	}
	if err != nil {
		return nil, err
	}
	made.Until = authority.Expires().UTC()
	var pairs []certificate.Pair
	for _, arg := range args {
		names := strings.Split(arg, ",")
		p, err := authority.Issue(names, now, now.AddDate(0, 0, f.days))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", cli.ErrUsage, err)
		}
		base := filepath.Join(f.folder, strings.ReplaceAll(names[0], ":", "-"))
		one := madeCertificate{Names: names, Certificate: base + ".crt", Key: base + ".key", Until: earlier(now.AddDate(0, 0, f.days), made.Until).UTC()}
		if names[0] == "ca" {
			return nil, fmt.Errorf("%w: a node that is named ca first would replace the authority: expected another name first", cli.ErrUsage)
		}
		if _, err := os.Lstat(one.Certificate); err == nil && !f.renew {
			return nil, fmt.Errorf("%w: %s exists: --renew replaces it", cli.ErrUsage, one.Certificate)
		}
		made.Nodes, pairs = append(made.Nodes, one), append(pairs, p)
	}
	if made.NewAuthority {
		if err := os.MkdirAll(f.folder, 0o700); err != nil {
			return nil, err
		}
		if err := pair.Write(made.Authority, made.AuthorityKey); err != nil {
			return nil, err
		}
	}
	for i, n := range made.Nodes {
		if err := pairs[i].Write(n.Certificate, n.Key); err != nil {
			return nil, err
		}
	}
	return made, nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// readAuthority reads the authority of the folder. The error is fs.ErrNotExist only
// if neither of its files exists: a lost key is no reason for another authority.
func readAuthority(m *madeFiles) (*certificate.Authority, certificate.Pair, error) {
	var p certificate.Pair
	var err, errKey error
	p.Certificate, err = os.ReadFile(m.Authority)
	p.Key, errKey = os.ReadFile(m.AuthorityKey)
	switch gone, goneKey := errors.Is(err, fs.ErrNotExist), errors.Is(errKey, fs.ErrNotExist); {
	case gone && goneKey:
		return nil, p, err
	case gone || goneKey:
		return nil, p, fmt.Errorf("one of %s and %s is missing: restore it, or make another authority with --folder", m.Authority, m.AuthorityKey)
	case err != nil || errKey != nil:
		return nil, p, errors.Join(err, errKey)
	}
	if err := cli.CheckKeysMode(m.AuthorityKey); err != nil {
		return nil, p, err
	}
	a, err := certificate.ReadAuthority(p)
	if err != nil {
		return nil, p, fmt.Errorf("%s: %w", m.Authority, err)
	}
	return a, p, nil
}
