package command

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/stint-tasks/stint/internal/display"
)

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// isDrawable reports whether a stream is a terminal that can show more than lines of text.
func isDrawable(stream any) bool {
	return isTerminal(stream) && os.Getenv("TERM") != "dumb"
}

// terminalSize returns the size of a terminal. It is zero if the stream is no terminal or does not
// tell its size.
func terminalSize(stream any) (columns, rows int) {
	file, ok := stream.(*os.File)
	if !ok {
		return 0, 0
	}
	columns, rows, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0, 0
	}
	return columns, rows
}

// painter returns a painter that colours text on terminals, unless NO_COLOR is set
// (https://no-color.org).
func (p *program) painter() display.Painter {
	return display.Painter(os.Getenv("NO_COLOR") == "" && isDrawable(p.stdout))
}

// prompt asks the user of a terminal to type what; otherwise the command would seem to hang.
func (p *program) prompt(what string) {
	if isTerminal(p.stdin) {
		fmt.Fprintf(p.stderr, "type %s, and Ctrl-D at the end\n", what)
	}
}

// mayAsk refuses a command that has to ask where nobody can answer.
func (p *program) mayAsk() error {
	if !isTerminal(p.stdin) {
		return said(errInput, "there is no terminal to ask for confirmation; give --yes")
	}
	return nil
}

// confirm asks the user of a terminal whether to go on.
func (p *program) confirm(ctx context.Context, question string) error {
	fmt.Fprintf(p.stderr, "%s? [y/N] ", question)
	answered := make(chan string, 1)
	go func() { // so that Ctrl-C need not wait for the answer
		line, _ := bufio.NewReader(p.stdin).ReadString('\n') // what there is of it is the answer
		answered <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case answer := <-answered:
		if answer != "y" && answer != "yes" {
			return said(errInput, "nothing was changed")
		}
		return nil
	case <-ctx.Done():
		fmt.Fprintln(p.stderr)
		return ctx.Err()
	}
}
