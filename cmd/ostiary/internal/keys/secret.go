package keys

import (
	"fmt"
	"io/fs"
	"os"
	"runtime"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door/native/client"
)

// outUsage is the help of --out.
const outUsage = "write the secret to this new file, which only its owner can read, instead of printing it"

// readableByOthers are the permissions of a file that others than its owner can read.
const readableByOthers fs.FileMode = 0o044

// secretTo calls create, which makes a secret, and prints it, or writes it to the file
// out if that is not "". The file must not exist; it is made before the key is, so that no
// secret is lost, and removed if there is no secret for it.
func (a *app) secretTo(out string, create func() (client.Key, error)) (err error) {
	if out == "" {
		made, err := create()
		if err != nil {
			return err
		}
		a.warnReadable(made)
		return a.printMade(made)
	}
	file, err := os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("%w: --out: %w", cli.ErrUsage, err)
	}
	written := false
	defer func() {
		file.Close()
		if !written {
			os.Remove(out)
		}
	}()
	made, err := create()
	if err != nil || made.Secret == "" {
		if err == nil {
			err = a.printMade(made)
		}
		return err
	}
	if _, err = file.WriteString(made.Secret + "\n"); err == nil {
		err = file.Sync()
	}
	if err != nil {
		return fmt.Errorf("write the secret of key %s, which is lost: revoke the key: %w", made.Name, err)
	}
	written = true
	made.Secret = ""
	return a.printMade(made)
}

// warnReadable prints a warning if the secret goes to a file that others can read, as a
// shell makes it with "> FILE".
func (a *app) warnReadable(made client.Key) {
	file, ok := a.Out.(*os.File)
	if !ok || made.Secret == "" || runtime.GOOS == "windows" {
		return
	}
	info, err := file.Stat()
	if err == nil && info.Mode().IsRegular() && info.Mode().Perm()&readableByOthers != 0 {
		a.Note("warning: the secret goes to a file with mode %04o, which other users can read: run chmod 600, or use --out FILE", info.Mode().Perm())
	}
}
