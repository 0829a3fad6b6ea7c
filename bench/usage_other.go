//go:build !unix

package main

import (
	"os"
	"time"
)

// peakBytes is not known here.
func peakBytes(*os.ProcessState) int64 { return 0 }

// clientCPU is not known either.
func clientCPU() time.Duration { return 0 }
