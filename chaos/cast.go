//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/stint-tasks/stint/chaos/work"
)

// A cast is a process of a round.
type cast struct {
	name, kind string
	program    []string // with its arguments; empty: this program
	env        []string
}

// casts are the processes of a round, by their names. Those whose programs are missing are named.
func casts() (there []cast, missing []string) {
	there = []cast{
		{name: work.FirstWorker, kind: work.Worker},
		{name: "worker-2", kind: work.Worker},
		{name: "loops", kind: work.Loops},
		{name: "operator", kind: work.Operator},
		{name: "service", kind: work.Service},
		{name: "client", kind: work.Client},
		{name: "shard", kind: work.Shard},
	}
	module, err := filepath.Abs(".") // where the module is run, as its README says
	if err != nil {
		return there, []string{err.Error()}
	}
	clients := filepath.Join(filepath.Dir(module), "client")
	python := cast{
		name: "python", kind: work.Python,
		program: []string{"python3", filepath.Join(module, "work", "program.py")},
		env:     []string{"PYTHONPATH=" + filepath.Join(clients, "python")},
	}
	built := filepath.Join(clients, "typescript", "dist", "index.js")
	typescript := cast{
		name: "typescript", kind: work.TypeScript,
		program: []string{"node", filepath.Join(module, "work", "program.mjs")},
		env:     []string{"STINT_CHAOS_CLIENT=" + built},
	}
	for _, c := range []cast{python, typescript} {
		if _, err := exec.LookPath(c.program[0]); err != nil {
			missing = append(missing, fmt.Sprintf("no process in %s: there is no %s", c.name,
				c.program[0]))
			continue
		}
		if _, err := os.Stat(built); err != nil && c.kind == work.TypeScript {
			missing = append(missing, "no process in typescript: its client is not built, "+
				"which npm ci and npm run build in client/typescript do")
			continue
		}
		there = append(there, c)
	}
	return there, missing
}

// prepares says that the process keeps prepared statements, as pgx does by default. The others work
// behind a pooler as well.
func (c cast) prepares() bool { return c.kind == work.Worker || c.kind == work.Service }

// usesService says that the process has no connections of its own to the database.
func (c cast) usesService() bool {
	return c.kind == work.Client || c.kind == work.Python || c.kind == work.TypeScript
}
