package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	longHorizon = "long_horizon"
	migrateOnly = "migrate_only"

	fixedRate   = "fixed"
	depthTarget = "depth-target"

	pacedByHarness = "harness"
)

// settings are what the harness asks for, in environment variables.
type settings struct {
	url         string
	connections int32
	scenario    string
	instance    int

	mode      string // fixedRate or depthTarget
	paced     bool   // by the harness, at a fixed rate
	rate      int    // tasks a second
	rateFile  string // whose number replaces rate, if there is one
	batchMost int
	batchWait time.Duration
	depth     int

	workers   int
	queues    int
	bodyBytes int
	work      time.Duration
	every     time.Duration // between samples
}

func readSettings(getenv func(string) string) (settings, error) {
	var failed error
	text := func(name, otherwise string) string {
		if value := getenv(name); value != "" {
			return value
		}
		return otherwise
	}
	number := func(name string, least, otherwise int) int {
		n, err := strconv.Atoi(text(name, strconv.Itoa(otherwise)))
		if err == nil && n < least {
			err = fmt.Errorf("%d is less than %d", n, least)
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", name, err))
		}
		return n
	}
	s := settings{
		url:         getenv("DATABASE_URL"),
		connections: int32(number("MAX_CONNECTIONS", 1, 20)), //nolint:gosec // It is small.
		scenario:    text("SCENARIO", longHorizon),
		instance:    number("BENCH_INSTANCE_ID", 0, 0),
		mode:        text("PRODUCER_MODE", fixedRate),
		rate:        number("PRODUCER_RATE", 0, 800),
		rateFile:    getenv("PRODUCER_RATE_CONTROL_FILE"),
		batchMost:   number("PRODUCER_BATCH_MAX", 1, 128),
		batchWait:   time.Duration(number("PRODUCER_BATCH_MS", 1, 10)) * time.Millisecond,
		depth:       number("TARGET_DEPTH", 1, 1000),
		workers:     number("WORKER_COUNT", 1, 32),
		queues:      number("BENCH_QUEUE_COUNT", 1, 1),
		bodyBytes:   number("JOB_PAYLOAD_BYTES", 0, 256),
		work:        time.Duration(number("JOB_WORK_MS", 0, 1)) * time.Millisecond,
		every:       time.Duration(number("SAMPLE_EVERY_S", 1, 5)) * time.Second,
	}
	s.paced = s.mode == fixedRate && getenv("PRODUCER_PACING") == pacedByHarness
	switch {
	case s.url == "":
		failed = errors.Join(failed, errors.New("DATABASE_URL is not set"))
	case s.scenario != longHorizon && s.scenario != migrateOnly:
		failed = errors.Join(failed, fmt.Errorf("there is no SCENARIO %q", s.scenario))
	case s.mode != fixedRate && s.mode != depthTarget:
		failed = errors.Join(failed, fmt.Errorf("there is no PRODUCER_MODE %q", s.mode))
	}
	return s, failed
}

// rateNow is how many tasks a second the harness wants by now.
func (s settings) rateNow() float64 {
	if s.rateFile == "" {
		return float64(s.rate)
	}
	content, err := os.ReadFile(s.rateFile)
	if err != nil {
		return float64(s.rate)
	}
	rate, err := strconv.ParseFloat(strings.TrimSpace(string(content)), 64)
	if err != nil { // the harness is writing it
		return float64(s.rate)
	}
	return max(0, rate)
}

// actions are the queues of the harness.
func (s settings) actions() []string {
	all := make([]string, s.queues)
	for i := range all {
		all[i] = fmt.Sprintf("bench-%d", i)
	}
	return all
}
