//go:build unix

package system

import (
	"context"
	_ "embed" // for the statements
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint/internal/localpg"
)

//go:embed sql/reload.sql
var reloadSQL string

//go:embed sql/program_dir.sql
var programDirSQL string

const (
	user     = "stint"
	database = "chaos"
	port     = 5432 // of the socket's name; nothing listens on TCP

	startMax = time.Minute
	poll     = 50 * time.Millisecond
)

// A Server is a PostgreSQL whose processes the program may stop, kill and start again. It listens
// on a Unix socket alone.
type Server struct {
	// Env are further variables of the environment of the next Start, such as those of a false
	// clock.
	Env []string

	dir, bin string
	account  *syscall.Credential // nil: this one
	pool     *pgxpool.Pool

	mutex sync.Mutex
	data  string
	pid   int // of the postmaster, at the last start
}

// New makes a server in a directory, which need not exist, and starts it. The settings are written
// into postgresql.conf, so that ALTER SYSTEM overrides them.
func New(ctx context.Context, dir string, settings map[string]string) (*Server, error) {
	s := &Server{dir: dir, data: filepath.Join(dir, "data")}
	if err := s.initialise(ctx, settings); err != nil {
		return nil, err
	}
	if err := s.Start(ctx); err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(s.address("postgres"))
	if err != nil {
		return nil, errors.Join(err, s.Stop(ctx))
	}
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return nil, errors.Join(err, s.Stop(ctx))
	}
	_, err = conn.Exec(ctx, "CREATE DATABASE "+database)
	if err = errors.Join(err, conn.Close(ctx)); err != nil {
		return nil, errors.Join(err, s.Stop(ctx))
	}
	config.ConnConfig.Database = database
	config.ConnConfig.ConnectTimeout = 5 * time.Second
	s.pool, err = pgxpool.NewWithConfig(ctx, config)
	return s, err
}

// initialise makes the data. Package localpg finds the programs and the account.
func (s *Server) initialise(ctx context.Context, settings map[string]string) error {
	local, err := localpg.Start(ctx, localpg.Config{Dir: s.dir, Announce: localpg.Stderr})
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, local.URL("postgres"))
	if err != nil {
		return errors.Join(err, local.Close())
	}
	err = conn.QueryRow(ctx, programDirSQL).Scan(&s.bin)
	if err := errors.Join(err, conn.Close(ctx), local.Close()); err != nil {
		return err
	}
	info, err := os.Stat(s.data)
	if err != nil {
		return err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 {
		s.account = &syscall.Credential{Uid: stat.Uid, Gid: stat.Gid}
	}
	var text strings.Builder
	for name, value := range settings {
		fmt.Fprintf(&text, "%s = '%s'\n", name, value)
	}
	fmt.Fprintf(&text, "listen_addresses = ''\nport = %d\nunix_socket_directories = '%s'\n",
		port, s.dir)
	path := filepath.Join(s.data, "postgresql.conf")
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0) //nolint:gosec // our server's
	if err != nil {
		return err
	}
	_, err = file.WriteString(text.String())
	return errors.Join(err, file.Close())
}

// Start starts the server unless it runs, and returns when it answers. A start is repeated: a
// server that has just died may still be in the way.
func (s *Server) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startMax)
	defer cancel()
	var started error
	for {
		if !lives(s.PostmasterPID()) {
			started = s.Exec(ctx, "pg_ctl", "-D", s.Data(), "-W", "-l", s.log(), "start")
		}
		conn, err := pgx.Connect(ctx, s.address("postgres"))
		if err == nil {
			s.remember(s.PostmasterPID())
			return conn.Close(ctx)
		}
		select {
		case <-time.After(poll):
		case <-ctx.Done():
			return fmt.Errorf("the server does not answer, %s may say why: %w", s.log(),
				errors.Join(err, started))
		}
	}
}

// remember remembers the first process of the server, for when its disk does not tell.
func (s *Server) remember(pid int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.pid = pid
}

// first is the first process of the server, as its disk says or as it was.
func (s *Server) first() int {
	if pid := s.PostmasterPID(); pid != 0 {
		return pid
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.pid
}

// Stop stops the server, which breaks its connections. What was committed stays.
func (s *Server) Stop(ctx context.Context) error {
	return s.Exec(ctx, "pg_ctl", "-D", s.Data(), "-w", "-m", "fast", "stop")
}

// Crash stops the server on the spot: it writes nothing out.
func (s *Server) Crash(ctx context.Context) error {
	return s.Exec(ctx, "pg_ctl", "-D", s.Data(), "-w", "-m", "immediate", "stop")
}

// Restart stops the server and starts it again.
func (s *Server) Restart(ctx context.Context) error {
	return errors.Join(s.Stop(ctx), s.Start(ctx))
}

// Kill kills all processes of the server at once, and returns when they are gone.
func (s *Server) Kill() error {
	if err := s.signal(syscall.SIGSTOP); err != nil { // so that it starts none meanwhile
		return err
	}
	pids, err := s.PIDs()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := kill(pid, syscall.SIGKILL); err != nil {
			return err
		}
	}
	for _, pid := range pids {
		for deadline := time.After(startMax); lives(pid); {
			select {
			case <-time.After(poll):
			case <-deadline:
				return fmt.Errorf("process %d of the server does not end", pid)
			}
		}
	}
	return nil
}

// Freeze stops all processes of the server where they are.
func (s *Server) Freeze() error { return s.signal(syscall.SIGSTOP) }

// Thaw lets them go on.
func (s *Server) Thaw() error { return s.signal(syscall.SIGCONT) }

// signal sends a signal to the postmaster, and then to its children.
func (s *Server) signal(signal syscall.Signal) error {
	if pid := s.first(); lives(pid) {
		if err := kill(pid, signal); err != nil {
			return err
		}
	}
	pids, err := s.PIDs()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := kill(pid, signal); err != nil {
			return err
		}
	}
	return nil
}

// kill sends a signal to a process, if there is one.
func kill(pid int, signal syscall.Signal) error {
	if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal %v to process %d: %w", signal, pid, err)
	}
	return nil
}

// lives reports whether a process has not ended. One that nobody has waited for has.
func lives(pid int) bool {
	if pid == 0 {
		return false
	}
	//nolint:gosec // a number
	state, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && !strings.HasPrefix(string(state), "Z")
}

// PIDs are the processes of the server, the postmaster first.
func (s *Server) PIDs() ([]int, error) {
	postmaster := s.first()
	if !lives(postmaster) {
		return nil, nil
	}
	all, err := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output()
	if err != nil {
		return nil, err
	}
	pids := []int{postmaster}
	for line := range strings.Lines(string(all)) {
		var pid, parent int
		if _, err := fmt.Sscan(line, &pid, &parent); err == nil && parent == postmaster {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// Set changes a setting that needs no restart, or the next start takes up; empty: to its default.
func (s *Server) Set(ctx context.Context, name, value string) error {
	statement := "ALTER SYSTEM RESET " + name
	if value != "" {
		statement = fmt.Sprintf("ALTER SYSTEM SET %s = '%s'", name,
			strings.ReplaceAll(value, "'", "''"))
	}
	// Whoever has set a short time for statements must be able to take it back.
	return s.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		const patient, impatient = "SET statement_timeout = 0", "RESET statement_timeout"
		for _, text := range []string{patient, statement, reloadSQL, impatient} {
			if _, err := conn.Exec(ctx, text); err != nil {
				return errors.Join(err, conn.Conn().Close(ctx)) // it would go on being patient
			}
		}
		return nil
	})
}

// Pool has connections of a superuser, which go through no proxy.
func (s *Server) Pool() *pgxpool.Pool { return s.pool }

// Dir is where the server has its log, its socket and its first data.
func (s *Server) Dir() string { return s.dir }

// Data is the directory of the data.
func (s *Server) Data() string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.data
}

// Use makes the server go on with the data of another directory, at its next Start, such as those
// of a standby or of a backup. They keep the socket that postgresql.conf names.
func (s *Server) Use(data string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.data = data
}

// Bin is the path of one of the server's programs.
func (s *Server) Bin(program string) string { return filepath.Join(s.bin, program) }

// Address is the URL of the database, without a proxy.
func (s *Server) Address() string { return s.address(database) }

func (s *Server) address(database string) string {
	query := url.Values{
		"host": {s.dir}, "port": {strconv.Itoa(port)}, "sslmode": {"disable"},
		"connect_timeout": {"5"},
	}
	address := url.URL{
		Scheme: "postgres", User: url.User(user), Path: "/" + database, RawQuery: query.Encode(),
	}
	return address.String()
}

// PostmasterPID is the first process of the server, 0 if it was stopped. A server that was killed
// leaves its number behind.
func (s *Server) PostmasterPID() int {
	text, err := os.ReadFile(filepath.Join(s.Data(), "postmaster.pid"))
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		return 0
	}
	return pid
}

func (s *Server) log() string { return filepath.Join(s.dir, "log") }

// Command is one of the server's programs, to be run as its account.
func (s *Server) Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.Bin(program), args...) //nolint:gosec // of PostgreSQL
	cmd.Dir = s.dir
	cmd.Env = append(append(os.Environ(), "LC_ALL=C"), s.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: s.account}
	return cmd
}

// Exec runs one of the server's programs as its account.
func (s *Server) Exec(ctx context.Context, program string, args ...string) error {
	cmd := s.Command(ctx, program, args...)
	// A server that it starts would keep a pipe open, for which nobody would see an end.
	said, err := os.CreateTemp("", "stint-chaos-said-")
	if err != nil {
		return err
	}
	defer func() { _ = errors.Join(said.Close(), os.Remove(said.Name())) }()
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Run(); err != nil {
		text, _ := os.ReadFile(said.Name())
		return fmt.Errorf("%s: %w\n%s", program, err, text)
	}
	return nil
}

// Close stops the server, by force if it must.
func (s *Server) Close(ctx context.Context) error {
	if s.pool != nil {
		s.pool.Close()
	}
	if !lives(s.PostmasterPID()) {
		return nil
	}
	if err := s.Thaw(); err != nil {
		return err
	}
	if err := s.Stop(ctx); err != nil {
		return errors.Join(err, s.Kill())
	}
	return nil
}
