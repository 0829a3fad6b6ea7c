package main

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// imageUser is the user and the group of the image, by their numbers: Kubernetes cannot tell
// whether a name is root's.
const imageUser = "65532:65532"

// image writes an archive in the form of OCI, with an image for each processor of Linux. An image
// has the command, and what the command reads: the certificates of authorities, and a name for
// its user. The zones of schedules are in the command.
func (r *release) image(context.Context) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	found := false
	for _, t := range r.targets {
		if t.system != "linux" {
			continue
		}
		found = true
		image, err := r.imageFor(t)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image,
			Descriptor: v1.Descriptor{
				Platform: &v1.Platform{OS: t.system, Architecture: t.processor},
			},
		})
	}
	if !found {
		return nil
	}
	dir := filepath.Join(r.work, "image", "oci")
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	err = path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": "stint:" + r.version,
	}))
	if err != nil {
		return err
	}
	files, err := within(dir, "")
	if err != nil {
		return err
	}
	return create(filepath.Join(r.out, "stint_"+r.version+"_oci.tar"), func(w io.Writer) error {
		return writeFiles(w, r.time, files)
	})
}

func (r *release) imageFor(t target) (v1.Image, error) {
	dir := filepath.Join(r.work, "image")
	passwd, roots := filepath.Join(dir, "passwd"), filepath.Join(dir, "roots.pem")
	err := create(passwd, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "stint:x:%s::/:/sbin/nologin\n", imageUser)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := create(roots, writeRoots); err != nil {
		return nil, err
	}
	packed := filepath.Join(dir, t.processor+".tar.gz")
	err = writeTar(packed, r.time, []file{
		{name: "LICENSE", from: filepath.Join(r.source, "LICENSE")},
		{name: "NOTICE.txt", from: r.noticed()},
		{name: "etc/passwd", from: passwd},
		{name: "etc/ssl/certs/ca-certificates.crt", from: roots},
		{name: "stint", from: r.binary(t), executable: true},
	})
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromFile(packed, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1),
		types.OCIConfigJSON)
	image, err := mutate.ConfigFile(base, &v1.ConfigFile{
		OS: t.system, Architecture: t.processor,
		Created: v1.Time{Time: r.time},
		RootFS:  v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User: imageUser, Entrypoint: []string{"/stint"}, WorkingDir: "/",
			Labels: map[string]string{
				"org.opencontainers.image.title":       "stint",
				"org.opencontainers.image.description": "tasks in PostgreSQL",
				"org.opencontainers.image.source":      "https://github.com/stint-tasks/stint",
				"org.opencontainers.image.licenses":    "Apache-2.0",
				"org.opencontainers.image.version":     r.version,
				"org.opencontainers.image.revision":    r.commit,
			},
		},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(image, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: r.time}, CreatedBy: "release"},
	})
}

// writeRoots writes the certificates that Mozilla trusts for everything. A file cannot say what
// the others are trusted for.
func writeRoots(w io.Writer) error {
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		err := pem.Encode(w, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
		if err != nil {
			return err
		}
	}
	return nil
}
