package main

import (
	"io"
	"strings"
	"testing"
)

// A start without Docker says what to do.
func TestRun_NamesTheDaemonThatIsMissing(t *testing.T) {
	t.Parallel()
	if findDocker(t.Context()) == nil {
		t.Skip("there is a Docker daemon here")
	}
	input, forever := io.Pipe()
	defer forever.Close()
	err := run(t.Context(), []string{"postgres:18"}, input, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "no Docker answers") {
		t.Errorf("the start ended with %v", err)
	}
}

func TestRun_WantsAnImage(t *testing.T) {
	t.Parallel()
	err := run(t.Context(), nil, strings.NewReader(""), io.Discard)
	if err == nil || !strings.Contains(err.Error(), "IMAGE") {
		t.Errorf("the start ended with %v", err)
	}
}
