package main

import (
	"bufio"
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

//go:embed sql/flush.sql
var flushSQL string

// A machine is where the figures come from: without it they mean little.
type machine struct {
	CPU        string    `json:"cpu"`
	Cores      int       `json:"cores"`
	System     string    `json:"system"`
	Go         string    `json:"go"`
	PostgreSQL string    `json:"postgresql"`
	Settings   []setting `json:"settings"`

	// Flush is how much longer a small transaction takes if it waits for the disk.
	Flush float64 `json:"flush_ms"`

	// Load is that of the machine before anything was measured; nil where the system does not tell.
	Load *float64 `json:"load,omitempty"`

	// Modules are the versions of the libraries that were measured, and of their driver.
	Modules map[string]string `json:"modules"`
}

// machine describes the machine and the server.
func (s *server) machine(ctx context.Context) (machine, error) {
	m := machine{
		CPU: processor(), Cores: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH,
		Go: runtime.Version(), Modules: modules(), Load: loadBefore(),
	}
	err := s.conn.QueryRow(ctx, "SHOW server_version").Scan(&m.PostgreSQL)
	if err != nil {
		return m, err
	}
	rows, err := s.conn.Query(ctx, settingsSQL)
	if err != nil {
		return m, err
	}
	m.Settings, err = pgx.CollectRows(rows, pgx.RowToStructByPos[setting])
	if err != nil {
		return m, err
	}
	m.Flush, err = s.flush(ctx)
	return m, err
}

// flush measures a flush of WAL to the disk, in milliseconds, by its effect.
func (s *server) flush(ctx context.Context) (float64, error) {
	const often = 200
	var medians []float64
	for _, waits := range []string{"off", "on"} {
		if _, err := s.conn.Exec(ctx, "SET synchronous_commit = "+waits); err != nil {
			return 0, err
		}
		took := make([]float64, often)
		for i := range took {
			begun := now()
			if _, err := s.conn.Exec(ctx, flushSQL); err != nil {
				return 0, err
			}
			took[i] = millis(time.Since(begun))
		}
		medians = append(medians, median(took))
	}
	_, err := s.conn.Exec(ctx, "RESET synchronous_commit")
	return medians[1] - medians[0], err
}

// processor is the name of the processor, where the system tells it in the way of Linux.
func processor() string {
	file, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		if strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}

// loadBefore is the mean load of a minute, where the system tells it in the way of Linux.
func loadBefore() *float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return nil
	}
	var load float64
	if _, err := fmt.Sscan(string(text), &load); err != nil {
		return nil
	}
	return &load
}

// modules are the versions of what the contenders consist of.
func modules() map[string]string {
	measured := []string{
		"github.com/riverqueue/river", "github.com/jackc/pgx/v5",
	}
	versions := map[string]string{}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return versions
	}
	for _, module := range info.Deps {
		for _, path := range measured {
			if module.Path == path {
				versions[path] = module.Version
			}
		}
	}
	return versions
}

// write writes the description for people.
func (m machine) write(w io.Writer) error {
	const columns = 100
	var text strings.Builder
	fmt.Fprintf(&text, "%s, %d cores, %s, %s, PostgreSQL %s, a flush takes %.2f ms\n",
		m.CPU, m.Cores, m.System, m.Go, m.PostgreSQL, m.Flush)
	length := 0
	for _, s := range m.Settings {
		word := s.Name + "=" + s.Value
		switch {
		case length == 0:
		case length+len(word)+2 > columns:
			text.WriteString(",\n")
			length = 0
		default:
			text.WriteString(", ")
		}
		text.WriteString(word)
		length += len(word) + 2
	}
	_, err := fmt.Fprintf(w, "%s\n\n", text.String())
	return err
}
