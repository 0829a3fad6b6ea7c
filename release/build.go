package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// A target is a system that the command is built for.
type target struct{ system, processor string }

// targets are the systems, with their processors.
func targets() []string {
	return []string{
		"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64",
		"windows/amd64", "windows/arm64",
	}
}

// name is that of the binary.
func (t target) name() string {
	if t.system == "windows" {
		return "stint.exe"
	}
	return "stint"
}

// binary is where the binary is while the release is made.
func (r *release) binary(t target) string {
	return filepath.Join(r.work, "bin", t.system+"_"+t.processor, t.name())
}

func (r *release) binaries(ctx context.Context) error {
	for _, t := range r.targets {
		path := r.binary(t)
		env := []string{"CGO_ENABLED=0", "GOOS=" + t.system, "GOARCH=" + t.processor}
		err := r.run(ctx, r.source, env, "go", "build", "-trimpath", "-buildvcs=true",
			"-ldflags=-s -w", "-o", path, "./cmd/stint")
		if err != nil {
			return err
		}
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return err
		}
		if got := info.Main.Version; got != "v"+r.version {
			return fmt.Errorf("the binary for %s says that it is %q", t.system, got)
		}
	}
	return nil
}

// described is where the man pages and the completions are while the release is made.
func (r *release) described(parts ...string) string {
	return filepath.Join(append([]string{r.work, "manual"}, parts...)...)
}

func (r *release) manual(ctx context.Context) error {
	return r.run(ctx, filepath.Join(r.source, "cmd", "stint", "manual"), nil, "go", "run", ".",
		"v"+r.version, r.time.Format(time.DateOnly), r.described())
}

// archives writes an archive for each target.
func (r *release) archives(context.Context) error {
	for _, t := range r.targets {
		name := fmt.Sprintf("stint_%s_%s_%s", r.version, t.system, t.processor)
		files := []file{
			{name: t.name(), from: r.binary(t), executable: true},
			{name: "LICENSE", from: filepath.Join(r.source, "LICENSE")},
			{name: "NOTICE.txt", from: r.noticed()},
			{name: "README.md", from: filepath.Join(r.source, "README.md")},
		}
		described, err := within(r.described(), "")
		if err != nil {
			return err
		}
		files = append(files, described...)
		for i := range files {
			files[i].name = name + "/" + files[i].name
		}
		if t.system == "windows" {
			err = writeZip(filepath.Join(r.out, name+".zip"), r.time, files)
		} else {
			err = writeTar(filepath.Join(r.out, name+".tar.gz"), r.time, files)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// modules lists the modules of each binary, in the form of CycloneDX.
func (r *release) modules(ctx context.Context) error {
	for _, t := range r.targets {
		name := fmt.Sprintf("stint_%s_%s_%s.cdx.json", r.version, t.system, t.processor)
		err := r.run(ctx, filepath.Join(r.source, "release"), nil, "go", "tool", "cyclonedx-gomod",
			"bin", "-json", "-std", "-noserial", "-output", filepath.Join(r.out, name), r.binary(t))
		if err != nil {
			return err
		}
		if err := withoutTime(filepath.Join(r.out, name)); err != nil {
			return err
		}
	}
	return nil
}

// checksums writes a list that sha256sum reads.
func (r *release) checksums(context.Context) error {
	files, err := within(r.out, "")
	if err != nil {
		return err
	}
	list := ""
	for _, f := range files {
		sum, err := checksum(f.from)
		if err != nil {
			return err
		}
		list += fmt.Sprintf("%x  %s\n", sum, f.name)
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(list), 0o644)
}
