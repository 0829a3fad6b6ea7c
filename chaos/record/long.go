package record

import "time"

// A Long is the first line about a run of hours without a fault.
type Long struct {
	Seed    uint64    `json:"seed"`
	Commit  string    `json:"commit"`
	Date    time.Time `json:"date"`
	Machine string    `json:"machine"`
	Load    float64   `json:"load"`

	// Full is how many tasks a second were completed when none was held back.
	Full float64 `json:"full"`
}

// A Minute is a further line about it.
type Minute struct {
	At   time.Time `json:"at"`
	Rate float64   `json:"rate"` // completed tasks a second

	// P50 and P99 are milliseconds from an insert to the answer of a wait.
	P50         float64          `json:"p50"`
	P99         float64          `json:"p99"`
	Bytes       map[string]int64 `json:"bytes"` // of tables with their indexes
	Dead        map[string]int64 `json:"dead"`  // rows
	WAL         int64            `json:"wal"`   // bytes since the line before
	Connections int              `json:"connections"`

	// Server and Processes are bytes of memory that is not shared.
	Server    int64            `json:"server"`
	Processes map[string]int64 `json:"processes"`
	Deaths    int              `json:"deaths"`

	// Commits, Moves and Found are what was followed so far, and how many violations it had.
	Commits int64 `json:"commits"`
	Moves   int64 `json:"moves"`
	Found   int   `json:"found"`
}
