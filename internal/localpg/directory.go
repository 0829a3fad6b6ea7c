//go:build unix && !aix && !solaris

package localpg

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// What is inside the directory of a server, beside the locks.
const (
	dataName     = "data"
	halfMadeName = "data.new" // The work of an initdb that did not finish.
	socketName   = "socket"
	logName      = "log"
	oldLogName   = "log.old"

	temporaryPrefix = "stint-postgres-"
)

// A serverDir is the directory of a server, as one of its users sees it.
type serverDir struct {
	dir       string
	made      bool // by this Start, so nobody else knows it
	temporary bool // removed with its last use
	account   account

	users      *os.File      // Open from join to leave; holds our shared lock.
	socketDir  string        // Known when the server answers.
	unanswered error         // Why the last attempt to connect failed.
	inherited  bool          // A process that we started has inherited serverLock.
	exited     chan struct{} // Closed when the server that we started has exited; nil if we joined.
}

// openServerDir creates the directory if needed and checks that the server can live there.
func openServerDir(dir string, temporary bool) (*serverDir, error) {
	s := &serverDir{made: dir == "", temporary: dir == "" || temporary}
	var err error
	if s.made {
		dir, err = os.MkdirTemp("", temporaryPrefix)
	} else {
		err = makeDir(dir)
	}
	if err != nil {
		return nil, err
	}
	if s.dir, err = canonical(dir); err != nil {
		return nil, err
	}
	if s.account, err = serverAccount(s.path(dataName)); err == nil {
		err = s.settle()
	}
	if err != nil && s.made {
		err = errors.Join(err, os.Remove(s.dir))
	}
	return s, err
}

// settle gives a new directory to the account of the server, and checks that the account can reach
// an old one.
func (s *serverDir) settle() error {
	if !s.account.switched {
		return nil
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		if err := s.account.own(s.dir); err != nil {
			return err
		}
	}
	blocked, err := s.account.blockedAt(s.dir)
	if err != nil {
		return err
	}
	if blocked != "" {
		return fmt.Errorf("postgres refuses to run as root, and user %d, whom it would run as, "+
			"cannot enter %s: choose another directory, or chmod o+x it", s.account.uid, blocked)
	}
	return nil
}

// makeDir creates a directory for the server's account alone, and the parents that are missing.
func makeDir(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := makeOpenDirs(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// makeOpenDirs creates a directory and the parents that are missing. As root it opens them to all,
// whatever the umask, for the server runs as another account.
func makeOpenDirs(dir string) error {
	var missing []string
	for parent := dir; ; parent = filepath.Dir(parent) {
		if _, err := os.Stat(parent); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		missing = append(missing, parent)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil || os.Geteuid() != 0 {
		return err
	}
	for _, parent := range missing {
		if err := os.Chmod(parent, 0o755); err != nil {
			return err
		}
	}
	return nil
}

func canonical(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}

func (s *serverDir) path(name string) string { return filepath.Join(s.dir, name) }

// create opens a file of the directory for reading and appending, and makes it if needed.
func (s *serverDir) create(name string) (*os.File, error) {
	flags := os.O_RDWR | os.O_APPEND | os.O_CREATE | syscall.O_NOFOLLOW
	file, err := os.OpenFile(s.path(name), flags, 0o600)
	if err != nil {
		return nil, err
	}
	if s.account.switched {
		if err := file.Chown(s.account.uid, s.account.gid); err != nil {
			return nil, errors.Join(err, file.Close())
		}
	}
	return file, nil
}

// lock waits for a lock of the directory.
func (s *serverDir) lock(ctx context.Context, name string, how int) (*os.File, error) {
	file, err := s.create(name)
	if err != nil {
		return nil, err
	}
	err = poll(ctx, func() (bool, error) { return tryLock(file, how) })
	if err != nil {
		return nil, errors.Join(fmt.Errorf("wait for %s: %w", file.Name(), err), file.Close())
	}
	return file, nil
}

// tryServerLock returns nil when some process of the server is alive, and the lock otherwise.
func (s *serverDir) tryServerLock() (*os.File, error) {
	file, err := s.create(serverLock)
	if err != nil {
		return nil, err
	}
	free, err := tryLock(file, syscall.LOCK_EX)
	if err != nil || !free {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// dataVersion returns the major version that the data were made by, "" when there are none yet.
func (s *serverDir) dataVersion() (string, error) {
	data := s.path(dataName)
	version, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if err == nil {
		return strings.TrimSpace(string(version)), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	entries, err := os.ReadDir(data)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if len(entries) > 0 {
		return "", fmt.Errorf("%s holds files but is no database of PostgreSQL, for it has no "+
			"PG_VERSION: move it away, or choose another directory", data)
	}
	return "", nil
}

// makeSocketDir returns a private directory for the socket: in the directory of the server, or,
// where that path is no address of a Unix socket, a short one whose name follows from the path.
func (s *serverDir) makeSocketDir() (string, error) {
	dir := s.path(socketName)
	if !fitsSocket(dir) {
		sum := sha256.Sum256([]byte(s.dir))
		name := "stint-socket-" + hex.EncodeToString(sum[:8])
		var err error
		if dir, err = canonical(os.TempDir()); err != nil {
			return "", err
		}
		if dir = filepath.Join(dir, name); !fitsSocket(dir) {
			dir = filepath.Join("/tmp", name)
		}
	}
	if err := os.Mkdir(dir, 0o700); err == nil {
		if err := s.account.own(dir); err != nil {
			return "", err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return dir, s.account.checkPrivate(dir)
}

// fitsSocket reports whether a socket in dir can be named: the system limits the length, and a
// comma separates hosts for pgx and libpq.
func fitsSocket(dir string) bool {
	const longest = len(syscall.RawSockaddrUnix{}.Path) - 1
	socket := filepath.Join(dir, ".s.PGSQL."+strconv.Itoa(port))
	return len(socket) <= longest && !strings.Contains(dir, ",")
}

// newLog starts an empty log and keeps one older log, so that logs do not grow without end.
func (s *serverDir) newLog() (*os.File, error) {
	err := os.Rename(s.path(logName), s.path(oldLogName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return s.create(logName)
}

// withLog adds the last lines of the log to an error of the server.
func (s *serverDir) withLog(err error) error {
	const most = 4096
	file, openErr := os.Open(s.path(logName))
	if openErr != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // It was only read.
	if info, statErr := file.Stat(); statErr == nil && info.Size() > most {
		if _, seekErr := file.Seek(-most, io.SeekEnd); seekErr != nil {
			return err
		}
	}
	text, _ := io.ReadAll(io.LimitReader(file, most))
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	lines = lines[max(0, len(lines)-20):]
	return fmt.Errorf("%w; the log %s ends:\n%s", err, file.Name(), strings.Join(lines, "\n"))
}
