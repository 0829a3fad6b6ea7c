package main

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// TestMain runs the tests, or, in a process that a test started, a job.
func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		if err := beChild(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// quickServer is what tests want of a server: nothing in them outlives it.
func quickServer() map[string]string {
	return map[string]string{
		"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off",
		"shared_buffers": "128MB",
	}
}
