// Bench measures Stint and its peers side by side, on a PostgreSQL of its own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := start(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func start(ctx context.Context) error {
	if os.Getenv(childVariable) != "" {
		return beChild(ctx, os.Stdin, os.Stdout)
	}
	var p plan
	flag.BoolVar(&p.quick, "quick", false, "fewer tasks and workloads, within a minute")
	flag.IntVar(&p.rounds, "rounds", 3, "how often to measure; the table shows medians")
	flag.StringVar(&p.workloads, "w", "", "the workloads, such as W1,W3 (default all)")
	flag.StringVar(&p.only, "only", "", "the contenders, such as stint,river (default all)")
	flag.DurationVar(&p.snapshot, "w6", 10*time.Minute, "how long W6 lasts")
	flag.Float64Var(&p.scale, "scale", 1, "multiply all numbers of tasks")
	flag.Parse()
	s, err := startServer(ctx, nil)
	if err != nil {
		return err
	}
	_, err = p.carryOut(ctx, s, os.Stderr)
	return errors.Join(err, s.close(context.WithoutCancel(ctx)))
}
