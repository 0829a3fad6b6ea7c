package command

import "io"

// urlVariable names the variable of the environment that stands for --database-url.
const urlVariable = "STINT_DATABASE_URL"

// A program is one run of the command.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer

	databaseURL string // empty: the private PostgreSQL, if there is no service
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
