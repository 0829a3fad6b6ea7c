package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// imagesOf are the images of an archive by their processors. All must be as OCI has it.
func imagesOf(t *testing.T, archive string) map[string]v1.Image {
	t.Helper()
	dir := t.TempDir()
	command(t, dir, "tar", "-xf", archive)
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Fatal(err)
	}
	list, err := index.IndexManifest()
	if err != nil || len(list.Manifests) != 1 {
		t.Fatalf("the archive has %+v, %v, want one index", list, err)
	}
	index, err = index.ImageIndex(list.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if list, err = index.IndexManifest(); err != nil {
		t.Fatal(err)
	}
	images := map[string]v1.Image{}
	for _, manifest := range list.Manifests {
		image, err := index.Image(manifest.Digest)
		if err != nil {
			t.Fatal(err)
		}
		images[manifest.Platform.Architecture] = image
	}
	return images
}

// filesOf are the files of an image. None may be written by the user of the image.
func filesOf(t *testing.T, image v1.Image) map[string]string {
	t.Helper()
	files := map[string]string{}
	for archive := tar.NewReader(mutate.Extract(image)); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		if header.Uid != 0 || header.Mode&0o022 != 0 {
			t.Errorf("%s is of user %d and has the mode %o", header.Name, header.Uid, header.Mode)
		}
		files[header.Name] = string(text)
	}
}

// checkConfig checks what an image says of itself.
func checkConfig(t *testing.T, image v1.Image, processor, version string) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	labels := config.Config.Labels
	if config.OS != "linux" || config.Architecture != processor ||
		config.Config.User != imageUser ||
		strings.Join(config.Config.Entrypoint, " ") != "/stint" ||
		labels["org.opencontainers.image.version"] != version ||
		labels["org.opencontainers.image.licenses"] != "Apache-2.0" ||
		labels["org.opencontainers.image.revision"] == "" {
		t.Errorf("the image for %s says %+v", processor, config)
	}
}

// An image has the command and what it reads, runs as an ordinary user, and depends on nothing
// but the release.
func TestImage_HasTheCommandForAnOrdinaryUser(t *testing.T) {
	t.Parallel()
	var before []byte
	for range 2 {
		r := &release{
			version: "0.1.0-rc.1", commit: "c0ffee", source: "..", work: t.TempDir(),
			out: t.TempDir(), time: time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC),
			targets: []target{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "arm64"}},
		}
		for _, of := range r.targets {
			err := create(r.binary(of), func(w io.Writer) error {
				_, err := io.WriteString(w, "for "+of.processor)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(r.noticed(), []byte("of others"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := r.image(t.Context()); err != nil {
			t.Fatal(err)
		}
		archive := filepath.Join(r.out, "stint_0.1.0-rc.1_oci.tar")
		images := imagesOf(t, archive)
		if len(images) != 2 {
			t.Errorf("there are %d images, want 2", len(images))
		}
		for processor, image := range images {
			checkConfig(t, image, processor, r.version)
			files := filesOf(t, image)
			if len(files) != 5 || files["stint"] != "for "+processor ||
				!strings.Contains(files["etc/passwd"], imageUser) ||
				!strings.Contains(files["LICENSE"], "Apache License") {
				t.Errorf("the image for %s has %q", processor, files)
			}
			roots := []byte(files["etc/ssl/certs/ca-certificates.crt"])
			if !x509.NewCertPool().AppendCertsFromPEM(roots) {
				t.Error("the image has no certificates")
			}
		}
		text, err := os.ReadFile(archive)
		if err != nil {
			t.Fatal(err)
		}
		if before != nil && !bytes.Equal(text, before) {
			t.Error("two archives of the same files differ")
		}
		before = text
	}
}

func TestImage_SaysItsVersion(t *testing.T) {
	t.Parallel()
	archive := one(t, "stint_*_oci.tar")
	version := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(archive), "stint_"), "_oci.tar")
	for processor, image := range imagesOf(t, archive) {
		checkConfig(t, image, processor, version)
		files := filesOf(t, image)
		if processor != "amd64" {
			continue // does not run here
		}
		needs(t, "chroot")
		root := t.TempDir()
		err := os.WriteFile(filepath.Join(root, "stint"), []byte(files["stint"]), 0o755)
		if err != nil {
			t.Fatal(err)
		}
		said := command(t, root, "chroot", "--userspec="+imageUser, root, "/stint", "version")
		if !strings.HasPrefix(said, "stint v"+version+"\n") {
			t.Errorf("the image says %q", said)
		}
	}
}
