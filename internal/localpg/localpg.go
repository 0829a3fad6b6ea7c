// Package localpg starts a private PostgreSQL server from the programs found on this machine, for
// trying things out and for tests: no account, no port and no configuration are needed.
//
// A server belongs to a directory. Whoever starts a server on a directory where one is running
// joins it, from the same process or from another one; the last to close it stops it. The kernel
// keeps the count (by file locks), so a user that is killed is forgotten at once, and the server it
// leaves behind is joined by the next Start.
//
// The server listens on a Unix socket alone, in a directory that only its own account can enter;
// therefore it asks for no password. It runs in a session of its own: Ctrl-C in the terminal
// reaches the program and not the server, so the program decides when to close it, as the example
// of Start shows. The package handles no signals.
//
// PostgreSQL refuses to run as root. When the program is root, the server runs as the account that
// owns the data, else as postgres, else as nobody.
package localpg

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"runtime"
	"strconv"
	"strings"
)

const (
	superuser = "stint"
	port      = 5432 // Part of the socket's name only; nothing listens on TCP.
)

// ErrUnsupported reports that there are no private servers on this system: it is not Unix, or it
// is AIX or Solaris.
var ErrUnsupported = errors.New("a private server is not supported")

func unsupported() error { return fmt.Errorf("%w on %s", ErrUnsupported, runtime.GOOS) }

// Config says where the data of a server live and how the server is tuned. The zero Config is a
// server whose data are removed when it is closed.
type Config struct {
	// Dir is the directory that holds the data, the log and the locks of the server. It is created
	// when missing, and it must be on a local disk of this machine. When it is empty, Start makes a
	// temporary directory, which Close removes, or else the Start of a later temporary server.
	Dir string

	// Temporary says that the last use of the server removes Dir.
	Temporary bool

	// Settings are further settings of PostgreSQL by name, such as "fsync": "off". They apply when
	// this Start is the one that starts the server; a server that is already running keeps its own.
	// Where the server listens cannot be set.
	Settings map[string]string

	// Announce is called before PostgreSQL is downloaded, and says what comes from where and goes
	// whereto; [Stderr] and the Logf of a test will do. Nil says nothing.
	Announce func(format string, args ...any)
}

// Stderr writes a line to standard error.
func Stderr(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// Server is one use of a running PostgreSQL server. It is safe for concurrent use.
type Server struct {
	socketDir string
	leave     func() error
}

// Start starts the server of cfg.Dir, or joins it when it is running, and returns when it answers.
//
// The programs are looked for in the directory named by the environment variable STINT_PG_BIN and
// nowhere else if that is set; otherwise in PATH, then in the usual places of Debian, Red Hat,
// Homebrew and Postgres.app, the newest version first. Data that exist already are served by the
// version that made them. Where no PostgreSQL is found, one is downloaded, once, from Maven Central
// into the user's cache directory.
//
// Start takes as long as ctx allows. When it fails or ctx ends, a server that has no other user is
// stopped again, and nothing is left running. An error of the server itself carries the last lines
// of its log. On a system without private servers, the error is [ErrUnsupported].
func Start(ctx context.Context, cfg Config) (*Server, error) {
	server, err := start(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("start postgres: %w", err)
	}
	return server, nil
}

// ErrNotRunning says that no server is running on a directory.
var ErrNotRunning = errors.New("no server is running")

// Join joins the server of a directory if it is running, as Start does. Otherwise the error is
// [ErrNotRunning], and nothing is started or created.
func Join(ctx context.Context, dir string) (*Server, error) {
	server, err := join(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("join postgres: %w", err)
	}
	return server, nil
}

// URL returns the address of a database on the server, as pgx and libpq read it. The user is a
// superuser, and the database named postgres always exists; URL does not create others.
func (s *Server) URL(database string) string {
	return socketURL(s.socketDir, port, database)
}

// Close ends this use of the server. The last user of a directory stops the server, which breaks
// the connections that are still open and loses nothing that was committed; it then removes the
// directory if Start made a temporary one. Close may be called several times and returns the same
// answer each time.
func (s *Server) Close() error {
	if err := s.leave(); err != nil {
		return fmt.Errorf("stop postgres: %w", err)
	}
	return nil
}

func socketURL(socketDir string, port int, database string) string {
	query := url.Values{
		"host":    {socketDir},
		"port":    {strconv.Itoa(port)},
		"sslmode": {"disable"},
	}
	address := url.URL{
		Scheme: "postgres",
		User:   url.User(superuser),
		Path:   "/" + database,
		// To pgx and libpq a plus sign is a plus sign, not a space.
		RawQuery: strings.ReplaceAll(query.Encode(), "+", "%20"),
	}
	return address.String()
}
