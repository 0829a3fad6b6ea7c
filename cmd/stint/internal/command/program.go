package command

import "io"

// The variables of the environment that stand for --database-url. The one of the file has no flag:
// a service manager sets it where it has put a secret.
const (
	urlVariable     = "STINT_DATABASE_URL"
	urlFileVariable = "STINT_DATABASE_URL_FILE"
)

// A program is one run of the command.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer

	databaseURL string // empty: the private PostgreSQL, if there is no service
	variableURL string // the databaseURL that the environment names
	remote      remote
	topology    string // empty: one database or service is worked on
	schema      string
	json        bool

	// connections is how many the pool has at most; 0: as many as pgx does.
	connections int32

	// quiet leaves out which database is used, where something else says it.
	quiet bool
	// waits says that the sub-command does nothing but wait.
	waits bool
	// completing says that a shell asks what a word may be, so no server is started.
	completing bool

	// parsed says that the command line is right, so that later errors are not errors of usage.
	parsed bool
}

const schemaDefault = "stint"

// The groups that the help lists the sub-commands in.
const (
	groupTasks      = "tasks"
	groupOperations = "operations"
)
