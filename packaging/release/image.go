package main

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// imageUser is the user and the group of the program in an image.
const imageUser = 65532

// imageSettings is the configuration in an image. The environment and arguments of a
// container have precedence over it.
const imageSettings = `# Other containers reach these ports, so the server does not start without keys.
http: 0.0.0.0:8080
grpc: 0.0.0.0:8081
`

// imaged makes the image of a program in the folder dir, and returns its name. The archive
// has both the layout of OCI and the manifest of "docker save". tag is the tag of the image.
func imaged(s *source, b *built, name, tag, dir string) (string, error) {
	name = strings.Join([]string{"ostiary", name, "image", b.processor}, "-") + ".tar"
	img, err := image(s, b)
	if err != nil {
		return "", err
	}
	data, err := imageArchive(img, b, "ostiary:"+tag, s.date)
	if err != nil {
		return "", err
	}
	return name, os.WriteFile(filepath.Join(dir, name), data, 0o644)
}

// imageTag returns the tag of the image of a version: a tag has no "+".
func imageTag(version string) string { return strings.ReplaceAll(version, "+", "-") }

// image returns the image of a program, which has nothing else but the settings, the user,
// the roots of public authorities and the folder of the data.
func image(s *source, b *built) (v1.Image, error) {
	program, err := os.ReadFile(b.path)
	if err != nil {
		return nil, err
	}
	license, err := os.ReadFile(filepath.Join(s.root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	base := []file{
		{name: "etc/", mode: 0o755},
		{name: "etc/passwd", mode: 0o644, data: []byte("root:x:0:0:root:/:/sbin/nologin\nostiary:x:65532:65532:ostiary:/data:/sbin/nologin\n")},
		{name: "etc/group", mode: 0o644, data: []byte("root:x:0:\nostiary:x:65532:\n")},
		{name: "etc/ostiary/", mode: 0o755},
		{name: "etc/ostiary/ostiary.yaml", mode: 0o644, data: []byte(imageSettings)},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, data: roots()},
		{name: "data/", mode: 0o700, user: imageUser},
		{name: "tmp/", mode: 0o1777},
		{name: "LICENSE", mode: 0o644, data: license},
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, files := range [][]file{base, {{name: "ostiary", mode: 0o755, data: program}}} {
		layer, err := imageLayer(files, s.date)
		if err != nil {
			return nil, err
		}
		if img, err = mutate.Append(img, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: s.date}, CreatedBy: "ostiary's release program"}}); err != nil {
			return nil, err
		}
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = b.system, b.processor, v1.Time{Time: s.date}
	config.Config = v1.Config{
		User:         "65532:65532",
		Entrypoint:   []string{"/ostiary"},
		Cmd:          []string{"serve"},
		Env:          []string{"PATH=/", "OSTIARY_CONFIG=/etc/ostiary/ostiary.yaml", "OSTIARY_DATA=/data/ostiary"},
		Volumes:      map[string]struct{}{"/data": {}},
		ExposedPorts: map[string]struct{}{"8080/tcp": {}, "8081/tcp": {}},
		Healthcheck:  &v1.HealthConfig{Test: []string{"CMD", "/ostiary", "health"}, Interval: 10 * time.Second, Timeout: 5 * time.Second, StartPeriod: time.Minute, Retries: 3},
		Labels: map[string]string{
			"org.opencontainers.image.title":         "ostiary",
			"org.opencontainers.image.description":   strings.SplitN(description, "\n", 2)[0],
			"org.opencontainers.image.version":       s.version,
			"org.opencontainers.image.revision":      s.commit,
			"org.opencontainers.image.created":       s.date.Format(time.RFC3339),
			"org.opencontainers.image.licenses":      "Apache-2.0",
			"org.opencontainers.image.source":        "https://github.com/ostiary/ostiary",
			"org.opencontainers.image.documentation": "https://github.com/ostiary/ostiary/tree/main/docs",
		},
	}
	return mutate.ConfigFile(img, config)
}

func imageLayer(files []file, at time.Time) (v1.Layer, error) {
	data, err := packTar(files, at)
	if err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}

// roots returns the certificates of the authorities that Mozilla trusts without a
// condition, as PEM. They are those of a Go module, so that they are the same on every
// machine that makes a release.
func roots() []byte {
	var out []byte
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})...)
		}
	}
	return out
}

// imageArchive returns an image as a tar.
func imageArchive(img v1.Image, b *built, tag string, at time.Time) ([]byte, error) {
	blobs := map[string][]byte{}
	add := func(digest v1.Hash, data []byte) string {
		name := "blobs/sha256/" + digest.Hex
		blobs[name] = data
		return name
	}
	manifest, err := img.RawManifest()
	if err != nil {
		return nil, err
	}
	digest, err := img.Digest()
	if err != nil {
		return nil, err
	}
	add(digest, manifest)
	config, err := img.RawConfigFile()
	if err != nil {
		return nil, err
	}
	configDigest, err := img.ConfigName()
	if err != nil {
		return nil, err
	}
	saved := map[string]any{"Config": add(configDigest, config), "RepoTags": []string{tag}}
	layers, err := img.Layers()
	if err != nil {
		return nil, err
	}
	var layerNames []string
	for _, l := range layers {
		digest, err := l.Digest()
		if err != nil {
			return nil, err
		}
		r, err := l.Compressed()
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(r)
		r.Close()
		if err != nil {
			return nil, err
		}
		layerNames = append(layerNames, add(digest, data))
	}
	saved["Layers"] = layerNames
	_, short, _ := strings.Cut(tag, ":")
	index := map[string]any{"schemaVersion": 2, "mediaType": types.OCIImageIndex, "manifests": []any{map[string]any{
		"mediaType": types.OCIManifestSchema1, "digest": digest.String(), "size": len(manifest),
		"platform":    map[string]string{"os": b.system, "architecture": b.processor},
		"annotations": map[string]string{"io.containerd.image.name": "docker.io/library/" + tag, "org.opencontainers.image.ref.name": short},
	}}}
	files := []file{{name: "blobs/", mode: 0o755}, {name: "blobs/sha256/", mode: 0o755}, {name: "oci-layout", mode: 0o644, data: []byte(`{"imageLayoutVersion":"1.0.0"}`)}}
	for _, name := range slices.Sorted(maps.Keys(blobs)) {
		files = append(files, file{name: name, mode: 0o644, data: blobs[name]})
	}
	for name, value := range map[string]any{"index.json": index, "manifest.json": []any{saved}} {
		data, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: name, mode: 0o644, data: data})
	}
	return packTar(files, at)
}
