//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/stint-tasks/stint/chaos/faults"
	"github.com/stint-tasks/stint/chaos/join"
	"github.com/stint-tasks/stint/chaos/record"
	"github.com/stint-tasks/stint/chaos/system"
	"github.com/stint-tasks/stint/chaos/work"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
)

const (
	warmUp     = 3 * time.Second
	fullFor    = 4 * time.Second // how long the full rate is measured
	rateWindow = 3 * time.Second
	backWindow = time.Second
	backShare  = 0.9
	backMax    = time.Minute
	lookEvery  = 250 * time.Millisecond
	faultMax   = 3 * time.Minute // besides its time
	stopMax    = 20 * time.Second
	startMax   = time.Minute
)

// A round is a fault, with what happens before and after it.
type round struct {
	*campaign
	fault     faults.Fault
	dir       string
	meter     meter
	probe     probe
	processes []*system.Process
	proxies   []*pgcut.Proxy
	histories []*history
	moves     []join.Move
	deeds     map[string][]string // the moves of each task, as texts
	result    record.Round
	killed    bool // not all processes ended by themselves
}

// play plays a round.
func (c *campaign) play(ctx context.Context, f faults.Fault) (record.Round, error) {
	r := &round{campaign: c, fault: f, result: record.Round{
		Fault: f.Name, Seed: c.seedOf(), Date: now().UTC(), Lasts: c.lasts.Seconds(),
		Load: c.load, Machine: machine(), Commit: c.commit,
	}}
	r.deeds = map[string][]string{}
	r.dir = filepath.Join(c.dir, fmt.Sprintf("round-%d-%s", c.number, f.Name))
	const enter = 0o755
	if err := os.Mkdir(r.dir, enter); err != nil {
		return r.result, err
	}
	err := r.openHistories(ctx)
	if err == nil {
		err = r.beginEnds(ctx)
	}
	if err == nil {
		err = r.start(ctx)
	}
	if err == nil {
		err = r.disturb(ctx)
	}
	if err == nil {
		err = r.drain(ctx)
	}
	r.stop(context.WithoutCancel(ctx))
	if err == nil {
		err = r.judge(ctx)
	}
	err = errors.Join(err, r.close(context.WithoutCancel(ctx)))
	if errors.Is(err, faults.ErrNotHere) {
		return r.result, errors.Join(err, os.RemoveAll(r.dir))
	}
	if err == nil && len(r.result.Violations) == 0 && !c.keep {
		return r.result, os.RemoveAll(r.dir)
	}
	r.result.Kept = r.dir
	err = errors.Join(err, r.tell())
	return r.result, err
}

// tell writes all violations into the directory of the round; the record has the first.
func (r *round) tell() error {
	const mode, most = 0o644, 20
	text := strings.Join(r.result.Violations, "\n") + "\n"
	for id, moves := range r.deeds {
		if strings.Contains(text, strconv.Quote(id)) {
			text += "\n" + id + "\n  " + strings.Join(moves, "\n  ") + "\n"
		}
	}
	r.result.Found = len(r.result.Violations)
	r.result.Violations = r.result.Violations[:min(most, r.result.Found)]
	path := filepath.Join(r.dir, "violations")
	return os.WriteFile(path, []byte(text), mode)
}

// start starts the processes.
func (r *round) start(ctx context.Context) error {
	var listening net.ListenConfig
	listener, err := listening.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil { // the service takes it
		return err
	}
	for _, member := range r.cast {
		p := &system.Process{Kind: member.kind, Name: member.name, Said: r.said}
		job := work.Job{
			Kind: member.kind, Name: member.name, Round: r.number, Seed: r.seedOf(),
			Schema: schema, Address: address, Shard: r.other.Address(),
		}
		if r.long > 0 {
			job.Retention = longRetention
		} else {
			job.Cursor = r.cursor()
		}
		if member.kind == work.Service {
			p.Address = address
		}
		if !member.usesService() {
			proxy, err := pgcut.Start(context.WithoutCancel(ctx), r.server.Pool().Config())
			if err != nil {
				return err
			}
			r.proxies = append(r.proxies, proxy)
			job.URL = "postgres://" + proxy.Address() + "/?sslmode=disable"
			if !member.prepares() {
				job.URL += "&default_query_exec_mode=exec"
			}
		}
		p.Make = func(number int) *exec.Cmd { return r.command(member, job, number) }
		if err := p.Start(); err != nil {
			return err
		}
		r.processes = append(r.processes, p)
	}
	return nil
}

// command is a process of the round, at its start with a number.
func (r *round) command(member cast, job work.Job, number int) *exec.Cmd {
	job.Number = number
	job.Journal = r.journal(job)
	text, err := json.Marshal(job)
	if err != nil {
		text = nil // it has only texts and numbers
	}
	program := member.program
	if len(program) == 0 {
		own, err := os.Executable()
		if err != nil {
			own = os.Args[0]
		}
		program = []string{own}
	}
	cmd := exec.Command(program[0], program[1:]...) //nolint:gosec // of the module
	const mode = 0o644
	said := filepath.Join(r.dir, job.Name+".stderr")
	//nolint:gosec // of the round
	if file, err := os.OpenFile(said, os.O_APPEND|os.O_CREATE|os.O_WRONLY, mode); err == nil {
		cmd.Stderr = file
	}
	cmd.Env = append(append(os.Environ(), member.env...), work.Variable+"="+string(text))
	return cmd
}

// said takes note of a line that a process says.
func (r *round) said(line string) {
	r.meter.said(line)
	r.probe.said(line)
}

// order tells all processes something.
func (r *round) order(line string) {
	for _, p := range r.processes {
		p.Order(line)
	}
}

// pace brings the processes to the rate of the options.
func (r *round) pace(ctx context.Context) error {
	const always = 1.0
	if r.full == 0 || r.load >= always {
		if err := r.run(ctx, 0); err != nil {
			return err
		}
		if !work.Pause(ctx, fullFor) {
			return ctx.Err()
		}
		r.full = r.meter.rate(fullFor)
		fmt.Fprintf(os.Stderr, "the full rate is %.0f tasks a second\n", r.full)
	}
	if r.load < always {
		return r.run(ctx, max(1, int(r.full*r.load)))
	}
	return nil
}

// run orders a pace, and waits until the processes have followed it for a while.
func (r *round) run(ctx context.Context, tasks int) error {
	r.order(work.OrderPace + strconv.Itoa(tasks))
	for began := now(); r.meter.rate(backWindow) == 0; {
		if time.Since(began) > startMax {
			return errors.New("the processes complete no task: see what they have written")
		}
		if !work.Pause(ctx, lookEvery) {
			return ctx.Err()
		}
	}
	if !work.Pause(ctx, warmUp) {
		return ctx.Err()
	}
	return nil
}

// disturb runs the fault when the rate is steady, as often as the options say, and measures how
// long it takes each time until the rate is there again.
func (r *round) disturb(ctx context.Context) error {
	if err := r.pace(ctx); err != nil {
		return err
	}
	if !work.Pause(ctx, rateWindow) {
		return ctx.Err()
	}
	r.result.Rate = r.meter.rate(rateWindow)
	choices := rand.New(rand.NewPCG(r.seedOf(), 0)) //nolint:gosec // to be repeated
	for range max(1, r.times) {
		if err := r.happen(ctx, choices); err != nil {
			return err
		}
		back, err := r.awaitRate(ctx, r.result.Rate*backShare)
		if err != nil {
			return err
		}
		r.result.Backs = append(r.result.Backs, back)
	}
	return nil
}

// happen runs the fault once.
func (r *round) happen(ctx context.Context, choices *rand.Rand) error {
	faultCtx, cancel := context.WithTimeout(ctx, r.lasts+faultMax)
	defer cancel()
	if err := r.fault.Do(faultCtx, r.system(), choices, r.lasts); err != nil {
		return fmt.Errorf("the fault itself: %w", err)
	}
	if r.fault.Replaces {
		return r.renewHistories(ctx)
	}
	return nil
}

// awaitRate waits until the rate is back, and returns how many seconds that takes; a negative
// number if it takes too long.
func (r *round) awaitRate(ctx context.Context, wanted float64) (float64, error) {
	healed := now()
	for now().Sub(healed) < backMax {
		if !work.Pause(ctx, lookEvery) {
			return 0, ctx.Err()
		}
		if now().Sub(healed) >= backWindow && r.meter.rate(backWindow) >= wanted {
			return (now().Sub(healed) - backWindow).Seconds(), nil
		}
	}
	return -1, nil
}

// system is what the fault acts upon.
func (r *round) system() *system.System {
	return &system.System{
		Server: r.server, Shards: []*system.Server{r.other}, Proxies: r.proxies,
		Dir: r.dir, Schema: schema,
		Processes: func() []*system.Process { return r.processes },
		Log: func(format string, args ...any) {
			fmt.Fprintf(os.Stdout, "  %s: %s\n", r.fault.Name, fmt.Sprintf(format, args...))
		},
	}
}

// stop stops the processes.
func (r *round) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stopMax)
	defer cancel()
	ended := make(chan bool)
	for _, p := range r.processes {
		go func() { ended <- p.Stop(ctx) }()
	}
	for range r.processes {
		if !<-ended {
			r.killed = true
		}
	}
	for _, p := range r.processes {
		r.result.Deaths += p.Deaths()
	}
}

// close ends what the round has opened.
func (r *round) close(ctx context.Context) error {
	for _, p := range r.proxies {
		p.Close()
	}
	var err error
	for _, h := range r.histories {
		err = errors.Join(err, h.Close(ctx))
	}
	return err
}

func machine() string {
	return fmt.Sprintf("%s/%s, %d processors", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
}

// commit is that of the sources, empty if they are in no repository.
func commit(ctx context.Context) string {
	const short = 12
	text, err := exec.CommandContext(ctx, "git", "rev-parse", "HEAD").Output()
	if err != nil || len(text) < short {
		return ""
	}
	return strings.TrimSpace(string(text))[:short]
}
