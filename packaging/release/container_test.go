package main

import (
	"archive/tar"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// imageBytesMax is the largest size of an image, unpacked.
const imageBytesMax = 60_000_000

// containers runs the image of an archive with crun: with a read-only root and as the user
// of the image.
type containers struct {
	*space
	dir    string
	config v1.Config
	runs   int
}

// container reads an image as Docker and OCI tools do, and runs it.
func container(t *testing.T, top, name string) {
	needs(t, "crun=crun", "skopeo=skopeo", "curl=curl", "ip=iproute2")
	for _, form := range []string{"oci-archive:", "docker-archive:"} {
		if out, err := exec.Command("skopeo", "--override-os", "linux", "inspect", form+name).CombinedOutput(); err != nil || !strings.Contains(string(out), `"org.opencontainers.image.version": "0.999.0"`) {
			t.Errorf("skopeo on %s%s: %v\n%s", form, name, err, out)
		}
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	blobs := map[string][]byte{}
	for _, f := range untar(t, data) {
		blobs[f.name] = f.data
	}
	var saved []struct {
		Config           string
		RepoTags, Layers []string
	}
	var index v1.IndexManifest
	var manifest v1.Manifest
	var config v1.ConfigFile
	blob := func(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }
	unmarshal := func(name string, into any) {
		t.Helper()
		if err := json.Unmarshal(blobs[name], into); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	unmarshal("manifest.json", &saved)
	unmarshal("index.json", &index)
	unmarshal(blob(index.Manifests[0].Digest), &manifest)
	unmarshal(saved[0].Config, &config)
	if blob(manifest.Config.Digest) != saved[0].Config || !slices.Equal(saved[0].RepoTags, []string{"ostiary:0.999.0"}) {
		t.Errorf("Docker reads %+v, OCI tools %+v", saved[0], manifest)
	}
	c := &containers{space: newSpace(t, top, false), dir: t.TempDir(), config: config.Config}
	size := int64(0)
	for i, l := range manifest.Layers {
		if blob(l.Digest) != saved[0].Layers[i] {
			t.Errorf("layer %d is %s for Docker and %s for OCI tools", i, saved[0].Layers[i], l.Digest)
		}
		for _, f := range untar(t, blobs[blob(l.Digest)]) {
			size += f.header.Size
			c.unpack(f)
		}
	}
	t.Logf("the image has %d layers, %d bytes as an archive and %d unpacked", len(manifest.Layers), len(data), size)
	if size > imageBytesMax {
		t.Errorf("the image has %d bytes, expected at most %d", size, imageBytesMax)
	}
	if l := config.Config.Labels; l["org.opencontainers.image.version"] != "0.999.0" || len(l["org.opencontainers.image.revision"]) != 40 {
		t.Errorf("labels: %v", l)
	}
	c.lives()
}

// unpack writes a file of a layer to the root folder of the containers.
func (c *containers) unpack(f packed) {
	c.t.Helper()
	name := filepath.Join(c.dir, "rootfs", f.name)
	var err error
	if f.header.Typeflag == tar.TypeDir {
		err = os.MkdirAll(name, 0o755)
	} else if err = os.MkdirAll(filepath.Dir(name), 0o755); err == nil {
		err = os.WriteFile(name, f.data, 0o644)
	}
	if err == nil {
		err = os.Chown(name, f.header.Uid, f.header.Gid)
	}
	if err == nil {
		err = os.Chmod(name, f.header.FileInfo().Mode())
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// container returns the command that runs a container with a volume, and variables and
// arguments in addition to those of the image.
func (c *containers) container(volume string, variables []string, args ...string) *exec.Cmd {
	c.t.Helper()
	if len(args) == 0 {
		args = c.config.Cmd
	}
	var uid, gid int
	if _, err := fmt.Sscanf(c.config.User, "%d:%d", &uid, &gid); err != nil {
		c.t.Fatalf("user %q: %v", c.config.User, err)
	}
	spec := map[string]any{
		"ociVersion": "1.0.0",
		"process": map[string]any{
			"user": map[string]int{"uid": uid, "gid": gid}, "cwd": "/", "noNewPrivileges": true,
			"args": slices.Concat(c.config.Entrypoint, args), "env": slices.Concat(c.config.Env, variables),
		},
		"root": map[string]any{"path": filepath.Join(c.dir, "rootfs"), "readonly": true},
		"mounts": []any{
			map[string]any{"destination": "/proc", "type": "proc", "source": "proc"},
			map[string]any{"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": []string{"nosuid", "mode=755"}},
			map[string]any{"destination": "/data", "type": "bind", "source": volume, "options": []string{"bind", "rw"}},
		},
		"linux": map[string]any{"namespaces": []any{map[string]string{"type": "pid"}, map[string]string{"type": "ipc"}, map[string]string{"type": "mount"}}},
	}
	text, err := json.Marshal(spec)
	if err != nil {
		c.t.Fatal(err)
	}
	c.runs++
	id := fmt.Sprintf("c%d", c.runs)
	bundle := filepath.Join(c.dir, id)
	if err := os.MkdirAll(bundle, 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bundle, "config.json"), text, 0o644); err != nil {
		c.t.Fatal(err)
	}
	return c.command("crun", "--root", filepath.Join(c.dir, "state"), "--cgroup-manager=disabled", "run", "--bundle", bundle, id)
}

// exec returns a command in the container that was started last, as its user.
func (c *containers) exec(args ...string) *exec.Cmd {
	return c.command(append([]string{"crun", "--root", filepath.Join(c.dir, "state"), "--cgroup-manager=disabled", "exec", "--user", c.config.User, fmt.Sprintf("c%d", c.runs)}, args...)...)
}

// lives makes a key, serves, decides, and plays what goes wrong.
func (c *containers) lives() {
	t := c.t
	volume := filepath.Join(c.dir, "volume")
	own := func(name string, uid int) {
		t.Helper()
		if err := os.MkdirAll(name, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(name, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	own(volume, imageUser)
	c.fails(c.container(volume, nil), "ostiary key create", "--auth-anonymous")
	key := strings.TrimSpace(outputOf(t, c.container(volume, nil, "key", "create", "admin", "--stores", "*", "--rights", "admin", "--expires", "1h")))
	p := c.start(c.container(volume, nil))
	if out, err := c.exec(c.config.Healthcheck.Test[1:]...).CombinedOutput(); err != nil {
		t.Errorf("health of a server that is ready: %v\n%s", err, out)
	}
	c.fill(key)
	c.decides(key)
	p.stop()

	locked := filepath.Join(c.dir, "locked")
	own(locked, 0)
	for _, mode := range []os.FileMode{0o700, 0o755} {
		if err := os.Chmod(locked, mode); err != nil {
			t.Fatal(err)
		}
		c.fails(c.container(locked, []string{"OSTIARY_AUTH=keys"}), "/data/ostiary", "permission denied", "the program runs as user 65532")
	}
	marker := filepath.Join(volume, "ostiary", "OSTIARY")
	text, err := os.ReadFile(marker)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(marker, []byte(strings.Replace(string(text), "3", "4", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	c.fails(c.container(volume, nil), "the data folder has format 4, but this version reads formats up to 3")
}
