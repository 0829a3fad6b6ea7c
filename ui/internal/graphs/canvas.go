package graphs

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/internal/layout"
	"github.com/stint-tasks/stint/ui/internal/show"
)

// A canvas is a picture with more boxes than a page can hold: the script asks for their places,
// once, and draws them. What changes are the states, which the page has.
type canvas struct {
	Layout  string // where the places are
	States  string // of all tasks, a digit each
	Chain   string // the numbers of the tasks of the longest chain, between spaces
	Summary string
}

// canvasArrowsMax is how many arrows are laid out for a picture on a canvas.
const canvasArrowsMax = 50_000

// newCanvas says where the script finds what it draws.
func (n *Net) newCanvas(chain *Chain) *canvas {
	states := make([]byte, len(n.tasks))
	for i := range n.tasks {
		at := slices.Index(show.States(), n.tasks[i].State)
		if at < 0 { // the task is on a shard that is away
			at = len(show.States())
		}
		states[i] = '0' + byte(at) //nolint:gosec // there are few states
	}
	var numbers []string
	if chain != nil {
		for _, task := range chain.Tasks {
			numbers = append(numbers, strconv.Itoa(task))
		}
	}
	return &canvas{
		Layout: show.Link("layout", "id", string(n.id), "of", n.Version()),
		States: string(states), Chain: strings.Join(numbers, " "), Summary: summary,
	}
}

// Fits reports whether the places of the network are few enough to be sent.
func (n *Net) Fits() bool { return len(n.edges) <= canvasArrowsMax }

// Version tells the network from others, whatever the states of its tasks.
func (n *Net) Version() string {
	sum := sha256.New()
	for i := range n.tasks {
		_, _ = io.WriteString(sum, string(n.tasks[i].ID)+"\x00")
	}
	var pair [16]byte
	for _, e := range n.edges {
		binary.LittleEndian.PutUint64(pair[:8], uint64(e.From)) //nolint:gosec // not negative
		binary.LittleEndian.PutUint64(pair[8:], uint64(e.To))   //nolint:gosec // not negative
		_, _ = sum.Write(pair[:])
	}
	return base64.RawURLEncoding.EncodeToString(sum.Sum(nil)[:12])
}

// Places is what the script draws.
type Places struct {
	Width   int      `json:"width"`
	Height  int      `json:"height"`
	Box     [2]int   `json:"box"` // how large each is
	Of      int      `json:"of"`  // the task that was asked for
	IDs     []string `json:"ids"`
	Names   []string `json:"names"` // the IDs as they fit into boxes
	Actions []string `json:"actions"`
	Action  []int    `json:"action"` // of each task, in Actions
	Round   string   `json:"round"`  // 1 for tasks that nobody performs
	Xs      []int    `json:"xs"`
	Ys      []int    `json:"ys"`
	Path    string   `json:"path"`   // of all arrows
	Anyway  string   `json:"anyway"` // of those to tasks that run anyway
	When    string   `json:"when"`   // of those that have a condition
}

// Places lays the boxes out.
func (n *Net) Places() *Places {
	laid := layout.Of(len(n.tasks), n.edges, sizes())
	p := &Places{
		Width: laid.Width + 2*margin, Height: laid.Height + 2*margin, Of: n.asked,
		Box: [2]int{boxWidth, boxHeight},
	}
	known := map[string]int{}
	var round, path, anyway, when strings.Builder
	for i := range n.tasks {
		task := &n.tasks[i]
		p.IDs = append(p.IDs, string(task.ID))
		p.Names = append(p.Names, cutMiddle(display.Text(string(task.ID)), lettersMax))
		at, ok := known[task.Action]
		if !ok {
			at = len(p.Actions)
			known[task.Action] = at
			p.Actions = append(p.Actions, display.Cut(task.Action, lettersMax))
		}
		p.Action = append(p.Action, at)
		if task.Action == stint.Spontaneous {
			round.WriteByte('1')
		} else {
			round.WriteByte('0')
		}
		p.Xs = append(p.Xs, laid.Boxes[i].X+margin)
		p.Ys = append(p.Ys, laid.Boxes[i].Y+margin)
	}
	for i, e := range n.edges {
		to := &path
		switch {
		case n.conditions[e] != "":
			to = &when
		case n.tasks[e.To].OnAbort == stint.RunAnyway:
			to = &anyway
		}
		to.WriteString(laid.Routes[i].Moved(margin, margin).Path(0, 0))
	}
	p.Round, p.Path, p.Anyway = round.String(), path.String(), anyway.String()
	p.When = when.String()
	return p
}
