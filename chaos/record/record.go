// Package record keeps what rounds have shown, and writes the page about it.
package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
)

// A Round is a line of the record.
type Round struct {
	Fault   string    `json:"fault"`
	Seed    uint64    `json:"seed"`
	Commit  string    `json:"commit"`
	Date    time.Time `json:"date"`
	Machine string    `json:"machine"`
	Lasts   float64   `json:"lasts"` // seconds of the fault
	Load    float64   `json:"load"`

	Calls   int   `json:"calls"`
	Tasks   int   `json:"tasks"` // that were inserted
	Commits int64 `json:"commits"`
	Moves   int64 `json:"moves"`

	// Rate is in tasks a second before the fault; Backs are how many seconds after each time that
	// it happened there was 90 % of that again, negative if not within a minute.
	Rate  float64   `json:"rate"`
	Backs []float64 `json:"backs"`

	// Deaths are how many processes ended without having been told to.
	Deaths int            `json:"deaths"`
	Errors map[string]int `json:"errors,omitempty"` // by kind

	// Found is how many violations there were, of which Violations are the first.
	Found      int      `json:"found,omitempty"`
	Violations []string `json:"violations,omitempty"`
	Kept       string   `json:"kept,omitempty"` // the directory of the journals
}

// String is the round in a line.
func (r Round) String() string {
	text := fmt.Sprintf("%-22s seed %-7d %6d tasks %7d calls %8d moves  %5.0f/s before, "+
		"90%% after %s", r.Fault, r.Seed, r.Tasks, r.Calls, r.Moves, r.Rate, backsOf(r.Backs))
	if r.Found > 0 {
		text += fmt.Sprintf("  %d VIOLATIONS, see %s", r.Found, r.Kept)
	}
	return text
}

// Append adds a round to a record.
func Append(path string, r Round) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	const mode = 0o644
	//nolint:gosec // named by the caller
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	return errors.Join(err, file.Close())
}
