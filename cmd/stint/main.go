// Command stint looks after the tasks of package stint: it makes their tables, inserts, shows,
// explains, aborts and deletes tasks, and waits for them.
//
//	stint --help
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/stint-tasks/stint/internal/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // So that a second Ctrl-C ends the program on the spot.
	// A reader that goes away (stint ls | head) is an error to write to. The signal would end the
	// program before it has stopped its server.
	signal.Ignore(syscall.SIGPIPE)
	os.Exit(command.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
