package testdb

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// startContainer starts a server in a container, by the program in the folder container. That is a
// module of its own, so that neither a test nor a service that uses Stint has the client for
// containers among its modules (ADR 11). The container ends with the program, and the program when
// its input does: at stop, or if this process dies.
func startContainer(
	ctx context.Context, image string, settings map[string]string,
) (address string, stop func() error, err error) {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}",
		"github.com/stint-tasks/stint").Output()
	if err != nil {
		return "", nil, fmt.Errorf("find the program that starts containers: %w", err)
	}
	args := []string{
		"run", "-C", filepath.Join(strings.TrimSpace(string(root)), "internal/testdb/container"),
		".", image,
	}
	for name, value := range settings {
		args = append(args, name+"="+value)
	}
	//nolint:gosec,noctx // our own program, which outlives the start
	command := exec.Command("go", args...)
	var said bytes.Buffer
	command.Stderr = &said
	input, inputErr := command.StdinPipe()
	output, outputErr := command.StdoutPipe()
	if err := errors.Join(inputErr, outputErr, command.Start()); err != nil {
		return "", nil, err
	}
	stop = func() error {
		if err := errors.Join(input.Close(), command.Wait()); err != nil {
			return fmt.Errorf("%w: %s", err, &said)
		}
		return nil
	}
	defer context.AfterFunc(ctx, func() { _ = input.Close() })() // the start takes too long
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("start a container: %w", err), stop())
	}
	return strings.TrimSpace(line), stop, nil
}
