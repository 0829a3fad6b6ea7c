package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// debian makes a package for each processor, as package/nfpm.yaml says.
func (r *release) debian(ctx context.Context) error {
	for _, t := range r.targets {
		if t.system != "linux" {
			continue
		}
		if err := r.debianFor(ctx, t, r.version); err != nil {
			return err
		}
	}
	return nil
}

// maintainer is who answers for the package.
const maintainer = "Stint <stint-tasks@users.noreply.github.com>"

func (r *release) debianFor(ctx context.Context, t target, version string) error {
	dir := filepath.Join(r.work, "debian", version, t.processor)
	files, err := within(filepath.Join(r.source, "release", "package"), "")
	if err != nil {
		return err
	}
	completions, err := within(r.described("completions"), "completions/")
	if err != nil {
		return err
	}
	files = append(append(files, completions...), file{name: "stint", from: r.binary(t)},
		file{name: "NOTICE.txt", from: r.noticed()})
	for _, f := range files {
		if err := link(f.from, filepath.Join(dir, f.name)); err != nil {
			return err
		}
	}
	pages, err := within(r.described("man"), "man/")
	if err != nil {
		return err
	}
	for _, page := range pages {
		if err := writeGzip(filepath.Join(dir, page.name+".gz"), page.from); err != nil {
			return err
		}
	}
	// Debian sorts 0.1.0~rc.1 before 0.1.0.
	version = strings.ReplaceAll(version, "-", "~")
	changes := fmt.Sprintf("stint (%s) stable; urgency=medium\n\n  * See %s.\n\n -- %s  %s\n",
		version, "https://github.com/stint-tasks/stint/blob/main/CHANGELOG.md", maintainer,
		r.time.Format(time.RFC1123Z))
	if err := os.WriteFile(filepath.Join(dir, "changelog"), []byte(changes), 0o644); err != nil {
		return err
	}
	err = writeGzip(filepath.Join(dir, "changelog.gz"), filepath.Join(dir, "changelog"))
	if err != nil {
		return err
	}
	// The tool is built by the module of the release, and runs where the files are.
	tool, err := r.output(ctx, filepath.Join(r.source, "release"), "go", "tool", "-n", "nfpm")
	if err != nil {
		return err
	}
	return r.run(ctx, dir, []string{
		"STINT_VERSION=" + version, "STINT_PROCESSOR=" + t.processor,
		"STINT_MAINTAINER=" + maintainer,
	}, tool, "package", "--config", "nfpm.yaml", "--packager", "deb", "--target",
		filepath.Join(r.out, fmt.Sprintf("stint_%s_%s.deb", version, t.processor)))
}

// link makes a file appear at another place.
func link(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.Link(from, to)
}
