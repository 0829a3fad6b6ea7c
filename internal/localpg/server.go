//go:build unix && !aix && !solaris

package localpg

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// closeTimeout is how long Close waits for another Start or Close on the same directory.
	closeTimeout = 2 * time.Minute
	// fastTimeout is how long a server may take to write out its memory when it stops.
	fastTimeout = time.Minute
	// endTimeout is how long the processes of a server may take to end at once.
	endTimeout = 10 * time.Second
)

const supported = true

func start(ctx context.Context, cfg Config) (*Server, error) {
	return startWith(ctx, cfg, systemFinder())
}

func startWith(ctx context.Context, cfg Config, find finder) (*Server, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	find.announce = cfg.Announce
	settings, err := settingArgs(cfg.Settings)
	if err != nil {
		return nil, err
	}
	s, err := openServerDir(cfg.Dir, cfg.Temporary)
	if err != nil {
		return nil, err
	}
	if s.temporary {
		sweep(s.account)
	}
	if err := s.join(ctx, func(ctx context.Context) error {
		return s.up(ctx, find, settings)
	}); err != nil {
		return nil, err
	}
	return &Server{socketDir: s.socketDir, leave: sync.OnceValue(s.close)}, nil
}

func join(ctx context.Context, dir string) (*Server, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// Without the file, no server ever ran there.
	if _, err := os.Stat(filepath.Join(dir, serverLock)); dir == "" || err != nil {
		return nil, ErrNotRunning
	}
	s, err := openServerDir(dir, false)
	if err != nil {
		return nil, err
	}
	if err := s.join(ctx, s.running); err != nil {
		return nil, err
	}
	return &Server{socketDir: s.socketDir, leave: sync.OnceValue(s.close)}, nil
}

// join makes us a user of the server, which up finds or starts. If that fails, it leaves nothing
// behind.
func (s *serverDir) join(ctx context.Context, up func(ctx context.Context) error) error {
	starting, err := s.lock(ctx, startLock, syscall.LOCK_EX)
	if err != nil {
		return errors.Join(err, s.undo())
	}
	defer unlock(starting) //nolint:errcheck // Its end ends the lock as well.
	if s.users, err = s.lock(ctx, usersLock, syscall.LOCK_SH); err != nil {
		return errors.Join(err, s.undo())
	}
	if err := up(ctx); err != nil {
		return errors.Join(err, s.leave())
	}
	return nil
}

// settingArgs returns the settings as arguments of postgres.
func settingArgs(settings map[string]string) ([]string, error) {
	all := map[string]string{
		// What initdb writes into the configuration depends on the machine; this does not.
		"max_connections": "100",
		// The packages for Red Hat turn it on, and Start then would not see why a start fails.
		"logging_collector": "off",
		// The list of processes should tell whose server it is.
		"cluster_name": "stint",
	}
	fixed := []string{
		"data_directory", "listen_addresses", "port",
		"unix_socket_directories", "unix_socket_group", "unix_socket_permissions",
	}
	for name, value := range settings {
		name = strings.ToLower(name)
		if slices.Contains(fixed, name) {
			return nil, fmt.Errorf("setting %s cannot be changed", name)
		}
		all[name] = value
	}
	var args []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		args = append(args, "-c", name+"="+all[name])
	}
	return args, nil
}

// up waits for the running server or starts one. The caller holds startLock.
func (s *serverDir) up(ctx context.Context, find finder, settings []string) error {
	lock, err := s.find(ctx)
	if err != nil || lock == nil {
		return err
	}
	err = s.launch(ctx, find, settings, lock)
	if s.inherited {
		return errors.Join(err, bequeath(lock))
	}
	return errors.Join(err, unlock(lock))
}

// running waits for the running server. The caller holds startLock.
func (s *serverDir) running(ctx context.Context) error {
	lock, err := s.find(ctx)
	if err != nil || lock == nil {
		return err
	}
	return errors.Join(ErrNotRunning, unlock(lock))
}

// find waits until the running server answers. If none is running, it returns the lock of a server.
func (s *serverDir) find(ctx context.Context) (lock *os.File, err error) {
	err = poll(ctx, func() (done bool, err error) {
		if lock, err = s.tryServerLock(); lock != nil || err != nil {
			return true, err
		}
		// Some process of a server is alive: it serves, starts, or stops.
		return s.answers(ctx)
	})
	if err != nil {
		return nil, s.waitError(err)
	}
	return lock, nil
}

// launch starts a server, and initialises the data first if there are none. It returns when the
// server answers. The processes inherit the lock.
func (s *serverDir) launch(
	ctx context.Context, find finder, settings []string, lock *os.File,
) error {
	if err := s.removeStalePIDFile(ctx); err != nil {
		return err
	}
	version, err := s.dataVersion()
	if err != nil {
		return err
	}
	programs, err := find.find(ctx, s.account, version)
	if err != nil {
		return err
	}
	log, err := s.newLog()
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // The server keeps it open.
	if version == "" {
		// A crash of the machine cannot hurt data that are thrown away or not synced anyway.
		durable := !s.temporary && !slices.Contains(settings, "fsync=off")
		if err := s.initialise(ctx, programs, durable, lock, log); err != nil {
			return err
		}
	}
	socketDir, err := s.makeSocketDir()
	if err != nil {
		return fmt.Errorf("socket directory: %w", err)
	}
	args := append([]string{
		"-D", s.path(dataName),
		"-c", "listen_addresses=",
		"-c", "port=" + strconv.Itoa(port),
		"-c", "unix_socket_directories=" + quoted(socketDir),
		"-c", "unix_socket_permissions=0700",
	}, settings...)
	server, err := s.spawn(programs.path("postgres"), args, lock, log)
	if err != nil {
		return err
	}
	s.exited = server.exited
	err = poll(ctx, func() (bool, error) {
		select {
		case <-server.exited:
			return false, s.withLog(fmt.Errorf("the server exited at once: %w", server.err))
		default:
			return s.answers(ctx)
		}
	})
	if err != nil {
		server.end()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.withLog(s.waitError(err))
	}
	return err
}

func (s *serverDir) waitError(err error) error {
	if s.unanswered != nil && !errors.Is(err, s.unanswered) {
		err = fmt.Errorf("%w; its last answer: %w", err, s.unanswered)
	}
	return fmt.Errorf("wait for the server in %s: %w", s.dir, err)
}

// initialise makes the data beside their place and then moves them there, so that an initdb which
// is cut short leaves nothing that looks like data.
func (s *serverDir) initialise(
	ctx context.Context, programs binaries, durable bool, lock, log *os.File,
) error {
	halfMade := s.path(halfMadeName)
	if err := os.RemoveAll(halfMade); err != nil {
		return err
	}
	if err := os.Mkdir(halfMade, 0o700); err != nil {
		return err
	}
	if err := s.account.own(halfMade); err != nil {
		return err
	}
	// Trust is safe here: the socket is in a directory that only the server's account can enter.
	// The locale C sorts alike on every machine, and its files are never missing.
	args := []string{
		"-D", halfMade, "-U", superuser, "--auth-local=trust", "--auth-host=reject",
		"--encoding=UTF8", "--locale=C",
	}
	if !durable {
		args = append(args, "--no-sync")
	}
	initdb, err := s.spawn(programs.path("initdb"), args, lock, log)
	if err != nil {
		return err
	}
	select {
	case <-initdb.exited:
	case <-ctx.Done():
		initdb.end()
		return fmt.Errorf("initdb: %w", context.Cause(ctx))
	}
	if initdb.err != nil {
		return s.withLog(fmt.Errorf("initdb: %w", initdb.err))
	}
	if err := os.Rename(halfMade, s.path(dataName)); err != nil {
		return err
	}
	if !durable {
		return nil
	}
	return syncDir(s.dir)
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// quoted writes a directory as an item of a list in the configuration of PostgreSQL.
func quoted(dir string) string { return `"` + strings.ReplaceAll(dir, `"`, `""`) + `"` }

// close is Server.Close.
func (s *serverDir) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	starting, err := s.lock(ctx, startLock, syscall.LOCK_EX)
	if err != nil {
		return errors.Join(err, unlock(s.users))
	}
	defer unlock(starting) //nolint:errcheck // Its end ends the lock as well.
	return s.leave()
}

// leave gives up the use of the server, and stops the server if nobody else uses it. The caller
// holds startLock, so that nobody joins meanwhile.
func (s *serverDir) leave() error {
	defer unlock(s.users) //nolint:errcheck // Its end ends the lock as well.
	last, err := tryLock(s.users, syscall.LOCK_EX)
	if err != nil || !last {
		return err
	}
	if err := s.stop(); err != nil {
		return err
	}
	if s.exited != nil {
		<-s.exited // No process of the server is left, so this is about to happen.
	}
	if s.socketDir != "" && s.socketDir != s.path(socketName) {
		// It is empty now. Where it cannot be removed, the next server uses it again.
		_ = os.Remove(s.socketDir)
	}
	return s.discard()
}

// undo removes the directory that this Start has made.
func (s *serverDir) undo() error {
	if !s.made {
		return nil
	}
	return os.RemoveAll(s.dir)
}

// discard removes a temporary directory. No server is running there.
func (s *serverDir) discard() error {
	if !s.temporary {
		return nil
	}
	return os.RemoveAll(s.dir)
}

// stop ends the server. It first tries a fast shutdown, which breaks connections and writes
// everything out. If that takes too long, it tries an immediate one, which loses nothing either but
// makes the next start recover from its journal.
func (s *serverDir) stop() error {
	fast, cancel := context.WithTimeout(context.Background(), fastTimeout)
	defer cancel()
	err := s.shutDown(fast, syscall.SIGINT)
	if fast.Err() == nil {
		return err
	}
	immediate, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	if err := s.shutDown(immediate, syscall.SIGQUIT); err != nil {
		return s.withLog(fmt.Errorf("the server in %s does not stop: %w", s.dir, err))
	}
	return nil
}

// shutDown sends the signal to the server and waits until all of its processes are gone.
func (s *serverDir) shutDown(ctx context.Context, sig syscall.Signal) error {
	told := 0
	return poll(ctx, func() (bool, error) {
		lock, err := s.tryServerLock()
		if err != nil {
			return false, err
		}
		if lock != nil {
			return true, unlock(lock)
		}
		// A server that has only just been started has no process number yet, hence each time anew.
		if status, err := s.status(); err == nil && status.pid != told {
			told = status.pid
			_ = s.account.signal(status.pid, sig) // If it failed, the lock will tell.
		}
		return false, nil
	})
}

// sweep removes the temporary servers that killed processes left behind. It does what it can: a
// server that is in use, or that resists, stays.
func sweep(a account) {
	found, err := filepath.Glob(filepath.Join(os.TempDir(), temporaryPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range found {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() {
			continue
		}
		if uid, _ := owner(info); uid == a.uid {
			(&serverDir{dir: dir, temporary: true, account: a}).removeAbandoned()
		}
	}
}

func (s *serverDir) removeAbandoned() {
	for _, name := range []string{startLock, usersLock} {
		// A directory that is being made or removed lacks one of them or holds one.
		file, err := os.OpenFile(s.path(name), os.O_RDWR|syscall.O_NOFOLLOW, 0)
		if err != nil {
			return
		}
		defer unlock(file) //nolint:errcheck // Its end ends the lock as well.
		if free, err := tryLock(file, syscall.LOCK_EX); err != nil || !free {
			return
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	if s.shutDown(ctx, syscall.SIGQUIT) == nil {
		_ = os.RemoveAll(s.dir)
	}
}
