//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// programs are the paths of what a cluster runs.
type programs struct{ patroni, etcd, postgres string }

// section is the section of Patroni's settings that is about etcd, and so the protocol. Before
// 3.0.3, Patroni takes the place of the primary unconditionally over the new protocol: one that was
// frozen takes it from its successor when it goes on, and all that was done since is lost. The old
// protocol has no such fault.
func (p programs) section(ctx context.Context) (string, error) {
	//nolint:gosec // what findPrograms has found
	text, err := exec.CommandContext(ctx, p.patroni, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", p.patroni, err)
	}
	var major, minor, patch int
	_, version, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	if _, err := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch); err != nil {
		return "", fmt.Errorf("%s --version: %q: %w", p.patroni, text, err)
	}
	if slices.Compare([]int{major, minor, patch}, []int{3, 0, 3}) < 0 {
		return "etcd", nil
	}
	return "etcd3", nil
}

// findPrograms says what is missing, and how to get it.
func findPrograms() (programs, error) {
	var p programs
	var missing []string
	for name, path := range map[string]*string{"patroni": &p.patroni, "etcd": &p.etcd} {
		found, err := exec.LookPath(name)
		if err != nil {
			missing = append(missing, name)
		}
		*path = found
	}
	if p.postgres = findPostgres(); p.postgres == "" {
		missing = append(missing, "postgres")
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return p, fmt.Errorf("missing: %s. On Debian and Ubuntu, this installs all: "+
			"apt-get install postgresql patroni etcd-server", strings.Join(missing, ", "))
	}
	return p, nil
}

// findPostgres is the directory of PostgreSQL's programs, or "". Patroni needs more of them than
// the directory of commands has.
func findPostgres() string {
	const needed = "pg_rewind"
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + needed)
	if err == nil && len(found) > 0 {
		return filepath.Dir(found[len(found)-1])
	}
	path, err := exec.LookPath(needed)
	if err != nil {
		return ""
	}
	return filepath.Dir(path)
}

// An account is what the processes of a cluster run as: PostgreSQL refuses to be root.
type account struct {
	switched bool
	uid, gid int
}

func clusterAccount() (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	found, err := user.Lookup("postgres")
	if err != nil {
		return account{}, fmt.Errorf("postgres refuses to run as root: %w", err)
	}
	uid, uidErr := strconv.Atoi(found.Uid)
	gid, gidErr := strconv.Atoi(found.Gid)
	return account{switched: true, uid: uid, gid: gid}, errors.Join(uidErr, gidErr)
}

// makeDir makes a directory that belongs to the account.
func (a account) makeDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	return a.own(dir)
}

func (a account) own(path string) error {
	if !a.switched {
		return nil
	}
	return os.Chown(path, a.uid, a.gid)
}

// start starts a program in a session of its own, so that signals of the terminal do not reach it.
func (a account) start(log, dir, path string, args ...string) (*process, error) {
	output, err := os.Create(log) //nolint:gosec // in the directory of the cluster
	if err != nil {
		return nil, err
	}
	defer output.Close()                   //nolint:errcheck // the process has it
	command := exec.Command(path, args...) //nolint:gosec // what findPrograms has found
	command.Dir, command.Stdout, command.Stderr = dir, output, output
	command.Env = append(os.Environ(), "LC_ALL=C", "HOME="+dir)
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if a.switched {
		command.SysProcAttr.Credential = &syscall.Credential{
			Uid: uint32(a.uid), Gid: uint32(a.gid), //nolint:gosec // the system gave them
		}
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	p := &process{pid: command.Process.Pid, ended: make(chan struct{})}
	go func() {
		_ = command.Wait() // its log says more
		close(p.ended)
	}()
	return p, nil
}

// A process is one that this program has started.
type process struct {
	pid   int
	ended chan struct{}
}

// signal sends a signal, unless the process has ended.
func (p *process) signal(signal syscall.Signal) error {
	select {
	case <-p.ended:
		return nil
	default:
		return syscall.Kill(p.pid, signal)
	}
}

// family is a process and all its descendants.
func family(root int) ([]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, path := range stats {
		text, err := os.ReadFile(path) //nolint:gosec // of the system
		if err != nil {
			continue // it has ended
		}
		// The name, in brackets, may hold anything; behind it come the state and the parent.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		pid, pidErr := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		parent, parentErr := strconv.Atoi(fields[1])
		if err := errors.Join(pidErr, parentErr); err != nil {
			return nil, err
		}
		children[parent] = append(children[parent], pid)
	}
	members := []int{root}
	for i := 0; i < len(members); i++ {
		members = append(members, children[members[i]]...)
	}
	return members, nil
}

// signalAll sends a signal to a process and all its descendants.
func signalAll(root int, signal syscall.Signal) error {
	members, err := family(root)
	if err != nil {
		return err
	}
	for _, pid := range members {
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return nil
}
