//go:build linux

package faults

import (
	"context"
	"embed"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/stint-tasks/stint/chaos/system"
)

//go:embed preload/*.c
var sources embed.FS

// A preload is a library that programs are started with, and which changes what they see. Programs
// in Go ask the kernel without a library, and see what is.
type preload struct{ dir, library string }

// newPreload compiles a library.
func newPreload(ctx context.Context, s *system.System, name string) (*preload, error) {
	text, err := sources.ReadFile("preload/" + name + ".c")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(s.Dir, name+"-")
	if err != nil {
		return nil, err
	}
	p := &preload{dir: dir, library: filepath.Join(dir, name+".so")}
	source := filepath.Join(dir, name+".c")
	//nolint:gosec // the server runs as somebody else
	err = errors.Join(os.Chmod(dir, 0o755), os.WriteFile(source, text, 0o644))
	if err == nil {
		err = run(ctx, "cc", "-O2", "-shared", "-fPIC", "-o", p.library, source, "-ldl")
	}
	if err != nil {
		return nil, errors.Join(err, p.remove())
	}
	return p, nil
}

func (p *preload) remove() error { return os.RemoveAll(p.dir) }

// environment is that of programs that are started with the library.
func (p *preload) environment(before []string, more ...string) []string {
	return append(append(slices.Clone(before), "LD_PRELOAD="+p.library), more...)
}

// inServer calls do while the server has been started with the library, for which it is restarted
// before and afterwards.
func (p *preload) inServer(
	ctx context.Context, s *system.System, do func(ctx context.Context) error, more ...string,
) (err error) {
	before := s.Server.Env
	defer heal(ctx, &err, func(ctx context.Context) error {
		s.Server.Env = before
		return s.Server.Restart(ctx)
	})
	s.Server.Env = p.environment(before, more...)
	within, cancel := healing(ctx) // half of a restart is none
	defer cancel()
	if err := s.Server.Restart(within); err != nil {
		return err
	}
	return do(ctx)
}
