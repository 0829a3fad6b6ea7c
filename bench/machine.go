package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/jackc/pgx/v5"
)

// A machine is where the figures come from: without it they mean little.
type machine struct {
	CPU        string    `json:"cpu"`
	Cores      int       `json:"cores"`
	System     string    `json:"system"`
	Go         string    `json:"go"`
	PostgreSQL string    `json:"postgresql"`
	Settings   []setting `json:"settings"`

	// Modules are the versions of the libraries that were measured, and of their driver.
	Modules map[string]string `json:"modules"`
}

// machine describes the machine and the server.
func (s *server) machine(ctx context.Context) (machine, error) {
	m := machine{
		CPU: processor(), Cores: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH,
		Go: runtime.Version(), Modules: modules(),
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
	return m, err
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
	fmt.Fprintf(&text, "%s, %d cores, %s, %s, PostgreSQL %s\n",
		m.CPU, m.Cores, m.System, m.Go, m.PostgreSQL)
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
