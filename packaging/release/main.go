// Command release makes the files of a release of Ostiary from a clone: static programs in
// archives, Debian and RPM packages, images, the list of modules, checksums and their
// signature. Two runs on the same commit with the same version of Go make the same bytes.
// It publishes nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"aead.dev/minisign"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, ".", os.Args[1:], os.Stdout)
	stop()
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// settings are what the command line sets.
type settings struct {
	version, out, image string
	snapshot, unsigned  bool
	targets             []target
}

// run makes a release of the clone around the folder dir, with the settings of a command
// line. All that can be refused is refused before the first build.
func run(ctx context.Context, dir string, args []string, log io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	root, err := git(dir, "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	if o.out == "" {
		o.out = filepath.Join(root, "dist")
	}
	var s *source
	if o.snapshot {
		s, err = snapshot(root)
	} else {
		s, err = release(root, o.version)
	}
	if err != nil {
		return err
	}
	if o.image == "" {
		if err := refuseUsed(o.out, s.version); err != nil {
			return err
		}
	}
	var key *minisign.PrivateKey
	if !o.unsigned && o.image == "" {
		if key, err = signingKey(); err != nil {
			return err
		}
	}
	work, err := os.MkdirTemp("", "ostiary-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	made, err := o.make(ctx, s, key, work, log)
	if err != nil {
		return err
	}
	if err := deliver(work, o.out, made, log); err != nil {
		return err
	}
	if key == nil && o.image == "" {
		fmt.Fprintf(log, "unsigned: there is no %s\n", signatureName)
	}
	return nil
}

func parse(args []string) (*settings, error) {
	o := &settings{}
	f := flag.NewFlagSet("release", flag.ContinueOnError)
	f.StringVar(&o.version, "version", "", "version of the release, such as v0.1.0: the tag of the commit, and the newest entry of CHANGELOG.md")
	f.StringVar(&o.out, "out", "", "folder of the files; default: dist in the clone")
	list := f.String("targets", "", "systems to build for, with commas; default: all")
	f.BoolVar(&o.snapshot, "snapshot", false, "make a build that is no release, of any commit or changed tree; its version has the commit")
	f.BoolVar(&o.unsigned, "unsigned", false, "make no signature")
	f.StringVar(&o.image, "image", "", "make only the image of this machine's processor, with this tag")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	var err error
	switch {
	case f.NArg() > 0:
		return nil, fmt.Errorf("unexpected argument %q: expected flags only", f.Arg(0))
	case o.snapshot == (o.version != ""):
		return nil, errors.New("expected one of -version, such as v0.1.0, and -snapshot")
	case o.image != "":
		o.targets = []target{{"linux", host().processor}}
		if *list != "" {
			return nil, errors.New("-image has one target: expected no -targets")
		}
		return o, nil
	}
	o.targets, err = parseTargets(*list)
	return o, err
}

// refuseUsed fails if a folder has files of a release, of this version or another.
func refuseUsed(out, version string) error {
	all, err := os.ReadDir(out)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, of := range []string{"ostiary-" + version + "-", "ostiary-" + version + ".", "ostiary_" + version + "_"} {
		i := slices.IndexFunc(all, func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), of) })
		if version != "" && i >= 0 {
			return fmt.Errorf("v%s is already in %s (%s): a version is made once; move the folder away, or name another with -out", version, out, all[i].Name())
		}
	}
	i := slices.IndexFunc(all, func(e fs.DirEntry) bool { return !strings.HasPrefix(e.Name(), "ostiary-dev-image-") })
	if i >= 0 {
		return fmt.Errorf("%s is not empty (%s): a release has a folder of its own; move it away, or name another with -out", out, all[i].Name())
	}
	return nil
}

// make builds the programs and makes the files of the release in the folder work. It
// returns their names.
func (o *settings) make(ctx context.Context, s *source, key *minisign.PrivateKey, work string, log io.Writer) (made []string, err error) {
	programs := filepath.Join(work, "programs")
	var all []*built
	here := (*built)(nil)
	for _, t := range o.targets {
		fmt.Fprintf(log, "building for %s\n", t)
		b, err := build(s.root, programs, t)
		if err != nil {
			return nil, err
		}
		if err := s.check(b); err != nil {
			return nil, err
		}
		all = append(all, b)
		if t == host() {
			here = b
		}
	}
	if o.image != "" {
		name, err := imaged(s, all[0], o.image, o.image, work)
		return []string{name}, err
	}
	if here == nil { // it makes the pages
		if here, err = build(s.root, programs, host()); err != nil {
			return nil, err
		}
	}
	p, err := makePages(ctx, here.path, s)
	if err != nil {
		return nil, err
	}
	for _, b := range all {
		name, err := archived(s, b, p, work)
		if err != nil {
			return nil, err
		}
		made = append(made, name)
		if b.system != "linux" {
			continue
		}
		packages, err := packaged(s, b, p, work)
		if err != nil {
			return nil, err
		}
		img, err := imaged(s, b, s.version, imageTag(s.version), work)
		if err != nil {
			return nil, err
		}
		made = append(append(made, packages...), img)
	}
	chart, err := charted(s, work)
	if err != nil {
		return nil, err
	}
	bom, err := sbom(s, all, work)
	if err != nil {
		return nil, err
	}
	made = append(made, chart, bom, "RELEASE_NOTES.md")
	if err := os.WriteFile(filepath.Join(work, "RELEASE_NOTES.md"), s.releaseNotes(), 0o644); err != nil {
		return nil, err
	}
	sums, err := writeSums(s, work, made, key)
	return append(made, sums...), err
}

// check sets the version of a snapshot from a program. It fails if a program has another
// version than the release.
func (s *source) check(b *built) error {
	if s.version == "" {
		s.version = strings.TrimPrefix(b.version, "v")
	}
	if b.version != "v"+s.version {
		return fmt.Errorf("the program for %s has the version %s: expected v%s; does the commit have another tag of a version?", b.target, b.version, s.version)
	}
	return nil
}

// deliver moves the files from the folder work to the folder out.
func deliver(work, out string, files []string, log io.Writer) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, name := range files {
		data, err := os.ReadFile(filepath.Join(work, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, name), data, 0o644); err != nil {
			return err
		}
		fmt.Fprintf(log, "%10d  %s\n", len(data), filepath.Join(out, name))
	}
	return nil
}
