//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "failover: it runs on Linux only")
	os.Exit(1)
}
