package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

const (
	configurationPath = "/etc/ostiary/ostiary.yaml"
	documentation     = "/usr/share/doc/ostiary/"
	description       = "Authorization server: decides who may do what\nOstiary decides, lists and explains who may do what to which object, from the\nrelations that it stores. It speaks the protocols of OpenFGA, Permify, AuthZEN,\nXACML, OpenStack Identity and ONAP."
)

// packaged makes the Debian and the RPM package of a program for Linux in the folder dir,
// and returns their names.
func packaged(s *source, b *built, p *pages, dir string) ([]string, error) {
	work, err := os.MkdirTemp("", "ostiary-package-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	debian := "ostiary_" + s.version + "_" + b.processor + ".deb"
	red := "ostiary-" + s.version + "." + map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[b.processor] + ".rpm"
	for _, one := range []struct {
		name, kind string
		packager   nfpm.Packager
	}{{debian, "deb", deb.Default}, {red, "rpm", rpm.DefaultRPM}} {
		info, err := packageInfo(s, b, p, one.kind, filepath.Join(work, one.kind))
		if err != nil {
			return nil, err
		}
		if err := writePackage(one.packager, info, filepath.Join(dir, one.name)); err != nil {
			return nil, err
		}
	}
	return []string{debian, red}, nil
}

func writePackage(packager nfpm.Packager, info *nfpm.Info, name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(packager.Package(info, f), f.Close())
}

// packageInfo returns the description of a package of the kind deb or rpm. It writes the
// files that are made for it to the folder work.
func packageInfo(s *source, b *built, p *pages, kind, work string) (*nfpm.Info, error) {
	content := contents{mtime: files.ContentFileInfo{MTime: s.date}, work: work}
	own := filepath.Join(s.root, "packaging", "files")
	content.add(b.path, "/usr/bin/ostiary", 0o755)
	for _, unit := range units {
		content.add(filepath.Join(own, unit), "/usr/lib/systemd/system/"+unit, 0o644)
	}
	content.add(filepath.Join(own, "ostiary.yaml"), configurationPath, 0o640)
	content.all[len(content.all)-1].Type = files.TypeConfigNoReplace
	zsh, license := "/usr/share/zsh/vendor-completions/", documentation+"copyright"
	if kind == "rpm" {
		zsh, license = "/usr/share/zsh/site-functions/", "/usr/share/licenses/ostiary/LICENSE"
		// The user exists before the files: preinstall makes it. In a Debian package,
		// postinst sets the owner.
		content.all[len(content.all)-1].FileInfo.Group = "ostiary"
		content.all = append(content.all, &files.Content{Destination: "/var/lib/ostiary", Type: files.TypeDir, FileInfo: &files.ContentFileInfo{Owner: "ostiary", Group: "ostiary", Mode: 0o700, MTime: s.date}})
	}
	content.add(filepath.Join(s.root, "LICENSE"), license, 0o644)
	notes, err := compressed([]byte(s.notes))
	content.make(documentation+"changelog.gz", notes, err)
	pages, err := handbook(s)
	content.err = errors.Join(content.err, err)
	for _, page := range pages {
		content.make(documentation+page.name, page.data, nil)
	}
	for _, completions := range []struct {
		folder string
		files  map[string][]byte
	}{{"/usr/share/bash-completion/completions/", p.bash}, {zsh, p.zsh}, {"/usr/share/fish/vendor_completions.d/", p.fish}} {
		for _, name := range names(completions.files) {
			content.make(completions.folder+name, completions.files[name], nil)
		}
	}
	for _, name := range names(p.manual) {
		page, err := compressed(p.manual[name])
		content.make("/usr/share/man/man1/"+name+".gz", page, err)
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "ostiary", Version: s.version, Arch: b.processor, Platform: "linux",
		Section: "net", Priority: "optional",
		Maintainer: "The Ostiary authors <ostiary@users.noreply.github.com>", Vendor: "Ostiary", Homepage: "https://github.com/ostiary/ostiary", License: "Apache-2.0",
		Description: description, MTime: s.date, DisableGlobbing: true,
		Overridables: nfpm.Overridables{Contents: content.all, Umask: 0o022},
	})
	script := func(name string) string { return filepath.Join(own, kind, name) }
	info.Scripts = nfpm.Scripts{PostInstall: script("postinst"), PreRemove: script("prerm"), PostRemove: script("postrm")}
	if kind == "rpm" {
		info.Scripts.PreInstall = script("preinst")
		info.RPM.BuildHost = "localhost" // the name of this machine would differ
		info.RPM.Group = "Unspecified"
		info.Depends = []string{"/usr/sbin/useradd"}
	} else {
		info.Depends = []string{"passwd"} // useradd
	}
	return info, content.err
}

// contents are the files of a package.
type contents struct {
	all   files.Contents
	mtime files.ContentFileInfo
	work  string
	err   error // the first error of make
}

// add adds a file.
func (c *contents) add(source, destination string, mode fs.FileMode) {
	info := c.mtime
	info.Mode, info.Owner, info.Group = mode, "root", "root"
	c.all = append(c.all, &files.Content{Source: source, Destination: destination, FileInfo: &info})
}

// make writes a file with data and adds it, unless err is an error of the data.
func (c *contents) make(destination string, data []byte, err error) {
	source := filepath.Join(c.work, strings.ReplaceAll(strings.TrimPrefix(destination, "/"), "/", "_"))
	c.err = errors.Join(c.err, err, os.MkdirAll(c.work, 0o700), os.WriteFile(source, data, 0o644))
	c.add(source, destination, 0o644)
}
