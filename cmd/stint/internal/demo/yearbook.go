package demo

import (
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/structures"
)

// The actions.
const (
	actionOrder   = "order"
	actionScan    = "scan"
	actionDevelop = "develop"
	actionPage    = "page"
	actionIndex   = "index"
	actionBind    = "bind"
	actionPrint   = "print"
)

const (
	filmsPerRegion = 8
	photosPerFilm  = 50

	// orderID, bindID and printID are the tasks that are there once. The joins that the network
	// needs besides are named after bookName too.
	bookName                = "book"
	orderID    stint.TaskID = bookName + "/order"
	bindID     stint.TaskID = bookName + "/bind"
	printID    stint.TaskID = bookName + "/print"
	lostRegion              = "antarctica"
	lostFilm                = 5
)

func regions() []string {
	return []string{"africa", "america", lostRegion, "asia", "europe", "oceania"}
}

// yearbook is the network: a chain of the order, a group of regions, the binding and the printing.
func yearbook() (structures.Plan, error) {
	return structures.Build(bookName, structures.Chain(
		structures.Task{ID: orderID, Action: actionOrder},
		structures.Map(regions(), region),
		// The book has the indexes that exist: this task runs even if some tasks before it were
		// aborted.
		structures.Task{ID: bindID, Action: actionBind, OnAbort: stint.RunAnyway},
		structures.Task{ID: printID, Action: actionPrint},
	))
}

// region is a chord: its films side by side, then the index of their pages.
func region(name string) structures.Structure {
	films := make([]int, filmsPerRegion)
	for i := range films {
		films[i] = i + 1
	}
	return structures.Chord(
		structures.Task{ID: indexID(name), Action: actionIndex},
		structures.Map(films, func(number int) structures.Structure {
			return film(filmName(name, number))
		}),
	)
}

// film is a chain: its scan, then a chord of its photos side by side and the page that shows them.
func film(name string) structures.Structure {
	const triesMax = 10
	photos := make([]stint.TaskID, photosPerFilm)
	for i := range photos {
		photos[i] = stint.TaskID(fmt.Sprintf("%s/photo-%d", name, i+1))
	}
	return structures.Chain(
		structures.Task{ID: scanID(name), Action: actionScan},
		structures.Chord(
			structures.Task{ID: stint.TaskID(name + "/page"), Action: actionPage},
			structures.Map(photos, func(id stint.TaskID) structures.Task {
				return structures.Task{ID: id, Action: actionDevelop, MaxTries: triesMax}
			}),
		),
	)
}

func filmName(region string, number int) string { return fmt.Sprintf("%s/%d", region, number) }
func scanID(film string) stint.TaskID           { return stint.TaskID(film + "/scan") }
func indexID(region string) stint.TaskID        { return stint.TaskID(region + "/index") }

// lostScan is the task that never ends on its own.
func lostScan() stint.TaskID { return scanID(filmName(lostRegion, lostFilm)) }

// partOf is the part of the yearbook that a task belongs to: a region, or the book.
func partOf(id stint.TaskID) string {
	part, _, _ := strings.Cut(string(id), "/")
	return part
}

// failures is how often a task fails before it completes: most tasks never fail, one photo in ten
// fails, and some of these photos fail twice. It depends on the ID alone, so everybody agrees on
// it.
func failures(id stint.TaskID, action string) int {
	const one, two = 10, 40
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(id)) // cannot fail
	switch sum := hash.Sum32(); {
	case action != actionDevelop:
		return 0
	case sum%two == 0:
		return 2
	case sum%one == 0:
		return 1
	}
	return 0
}
