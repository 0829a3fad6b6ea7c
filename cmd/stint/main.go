// Command stint looks after the tasks of package stint: it makes their tables, inserts, performs,
// shows, watches, explains, aborts, retries, deletes and prunes tasks, waits for them, and looks
// for what is wrong with them.
//
//	stint --help
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // the zones of schedules, also where the system has none

	"github.com/stint-tasks/stint/cmd/stint/internal/command"
)

func main() {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	heedHangup := !signal.Ignored(syscall.SIGHUP) // nohup ignores it
	if heedHangup {
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, func() {
		if heedHangup {
			signal.Ignore(syscall.SIGHUP) // A terminal that is closed sends it twice.
		}
		stop() // So that a second Ctrl-C ends the program on the spot.
	})
	// If the reader goes away (stint ls | head), writing fails with an error. The signal would end
	// the program before it has stopped its server. It is not ignored, since the programs of a
	// worker would then ignore it, too.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	os.Exit(command.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
