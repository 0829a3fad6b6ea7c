package programs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"github.com/stint-tasks/stint/worker"
)

// readSpent says of a task what its program has written into the file for what it has spent. What
// is no number is left out, and the log says so: the work is done, whatever it has cost.
func (e *execution) readSpent(path string, task *worker.Task) {
	text, err := os.ReadFile(path) //nolint:gosec // ours
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	spent := 0
	if err == nil {
		spent, err = strconv.Atoi(string(bytes.TrimSpace(text)))
	}
	if err != nil && !errors.Is(err, strconv.ErrRange) { // then it is the nearest number
		_, _ = fmt.Fprintf(e.log, "stint: what the program has spent is not known: %.200v\n", err)
		return
	}
	task.SetSpent(spent)
}
