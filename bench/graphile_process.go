package main

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

var (
	//go:embed graphile/package.json
	graphilePackage []byte
	//go:embed graphile/worker.mjs
	graphileProgram []byte
)

// What the program does.
const (
	graphileMigrates     = "migrate"
	graphileDrains       = "drain"
	graphileDrainsSingly = "singly"
	graphileHears        = "hear"
)

// graphilePatience is how long an installation may take.
const graphilePatience = 5 * time.Minute

// graphileHome is the directory that has Graphile Worker, and the Node.js that it needs.
func graphileHome() (string, error) {
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "stint", "bench", "graphile"), err
}

func graphileNode(home string) string {
	return filepath.Join(home, "node_modules", ".bin", "node")
}

// installGraphile puts Graphile Worker in place, from the npm registry, if it is not there already.
func installGraphile(ctx context.Context, download bool) error {
	home, err := graphileHome()
	if err != nil {
		return err
	}
	packageFile := filepath.Join(home, "package.json")
	found, _ := os.ReadFile(packageFile) //nolint:gosec // The directory is our own.
	if !bytes.Equal(found, graphilePackage) || runNode(ctx, home, "-e", graphileTrial) != nil {
		if !download {
			return errors.New("it is not installed")
		}
		if err := os.MkdirAll(home, 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(packageFile, graphilePackage, 0o600); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, graphilePatience)
		defer cancel()
		err := runHere(ctx, home, "npm", "install", "--no-audit", "--no-fund", "--no-package-lock",
			"--loglevel=error", "--fetch-retries=1", "--fetch-retry-mintimeout=1000")
		if err != nil {
			return err
		}
		if err := runNode(ctx, home, "-e", graphileTrial); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(home, "worker.mjs"), graphileProgram, 0o600)
}

// graphileTrial is a program that runs if what was installed suits this machine.
const graphileTrial = `import("graphile-worker")`

func runNode(ctx context.Context, home string, arguments ...string) error {
	return runHere(ctx, home, graphileNode(home), arguments...)
}

// runHere runs a program in a directory. Its error is one line.
func runHere(ctx context.Context, dir, program string, arguments ...string) error {
	cmd := exec.CommandContext(ctx, program, arguments...) //nolint:gosec // npm, or its Node.
	cmd.Dir = dir
	output, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	said := strings.Join(strings.Fields(fmt.Sprintf("%s: %v: %s", cmd.Args, err, output)), " ")
	return fmt.Errorf("%.300s", said)
}

// graphileArgument is what the program is told.
type graphileArgument struct {
	URL     string   `json:"url"`
	Does    string   `json:"does"`
	Tasks   []string `json:"tasks"`
	Workers int      `json:"workers"`
	Until   int      `json:"until"`
}

func graphileCommand(ctx context.Context, argument graphileArgument) (*exec.Cmd, error) {
	home, err := graphileHome()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(argument)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, graphileNode(home), //nolint:gosec // It was installed for this.
		filepath.Join(home, "worker.mjs"), string(text))
	cmd.Stderr = os.Stderr
	return cmd, nil
}

// migrateGraphile makes its schema.
func migrateGraphile(ctx context.Context, url string) error {
	cmd, err := graphileCommand(ctx, graphileArgument{URL: url, Does: graphileMigrates})
	if err != nil {
		return err
	}
	return cmd.Run()
}

// A graphileProcess performs jobs.
type graphileProcess struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Scanner
	stop func() // has it finish what it has begun, and end
}

// startGraphile starts a process and waits until it has loaded its programs. It performs nothing
// yet. Unless until is 0, it ends by itself when it has performed so many jobs.
func startGraphile(
	ctx context.Context, r *run, does string, until int,
) (*graphileProcess, error) {
	cmd, err := graphileCommand(ctx, graphileArgument{
		URL: r.URL, Does: does, Tasks: graphileTasks(r), Workers: r.Callers, Until: until,
	})
	if err != nil {
		return nil, err
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &graphileProcess{cmd: cmd, in: in, out: bufio.NewScanner(out)}
	p.stop = sync.OnceFunc(func() { _ = in.Close() })
	if !p.out.Scan() || p.out.Text() != "loaded" {
		p.stop()
		return nil, errors.Join(fmt.Errorf("node wrote %q", p.out.Text()), p.out.Err(), cmd.Wait())
	}
	return p, nil
}

// work has the process perform jobs, and hands on the lines that it writes, until it has ended.
func (p *graphileProcess) work(heard func(line string) error) error {
	_, err := io.WriteString(p.in, "work\n")
	for err == nil && p.out.Scan() {
		err = heard(p.out.Text())
	}
	p.stop()
	return errors.Join(err, p.out.Err(), p.cmd.Wait())
}

// report tells what memory the process had. Its round trips are its own. Its time of the processor
// has been counted where it has ended by the end of the measurement, with the tenth of a second or
// so that it takes to load its programs.
func (p *graphileProcess) report(r *run) {
	r.report.Flights = -1
	if p.cmd.ProcessState != nil {
		r.report.PeakBytes = peakBytes(p.cmd.ProcessState)
	}
}
