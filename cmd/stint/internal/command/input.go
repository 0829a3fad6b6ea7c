package command

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/stint-tasks/stint/internal/display"
)

// read reads a file in a goroutine, so that Ctrl-C need not wait for it.
func (p *program) read(ctx context.Context, name, what string) ([]byte, error) {
	if name == "-" {
		p.prompt(what)
	}
	var text []byte
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		if name == "-" {
			text, err = io.ReadAll(p.stdin)
		} else {
			text, err = os.ReadFile(name) //nolint:gosec // which one is the user's choice
		}
	}()
	select {
	case <-done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errInput, err)
	}
	return text, nil
}

func sourceOf(file string) string {
	if file == "-" {
		return "standard input"
	}
	return display.Text(file)
}
