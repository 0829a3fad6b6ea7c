package programs

import (
	"bytes"
	"fmt"
	"os"
)

// A firstLineError says, besides how a program ended, that its first line can hardly be right.
type firstLineError struct {
	how     error
	problem string
}

func (e *firstLineError) Error() string { return fmt.Sprintf("%v: %s", e.how, e.problem) }
func (e *firstLineError) Unwrap() error { return e.how }

// explained adds to the error of a program that failed what is wrong with its first line, if that
// shows: the system's own words for it are about a file that is there.
func explained(how error, path string) error {
	if problem := firstLineProblem(path); problem != "" {
		return &firstLineError{how, problem}
	}
	return how
}

func firstLineProblem(path string) string {
	const lineMax = 256        // more than systems read
	file, err := os.Open(path) //nolint:gosec // the program that was run
	if err != nil {
		return ""
	}
	defer file.Close() //nolint:errcheck // nothing was written
	start := make([]byte, lineMax)
	n, _ := file.Read(start) // what cannot be read is not explained
	line, _, _ := bytes.Cut(start[:n], []byte("\n"))
	switch {
	case bytes.HasPrefix(line, []byte("\xef\xbb\xbf#!")):
		return "the file begins with a byte order mark: save it as UTF-8 without one"
	case !bytes.HasPrefix(line, []byte("#!")):
		return ""
	case bytes.HasSuffix(line, []byte("\r")):
		return "its lines end with CR and LF, as on Windows, so that the CR is a part of the " +
			"name or the argument of the interpreter: save it with LF alone"
	}
	fields := bytes.Fields(line[len("#!"):])
	if len(fields) == 0 {
		return "its first line names no interpreter"
	}
	if _, err := os.Stat(string(fields[0])); err != nil {
		return fmt.Sprintf("its first line names the interpreter %.80q, which cannot be run: %v",
			fields[0], err)
	}
	return ""
}
