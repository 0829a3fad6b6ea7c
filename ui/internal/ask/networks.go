package ask

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/ui/internal/kept"
)

// Networks are those that were asked for last. All tasks of a network that is not cut have the same
// one, so they share it.
type Networks struct {
	ask    func(ctx context.Context, id stint.TaskID) (*stint.Graph, error)
	recent kept.Answers[*netAnswer]

	askLarge func(ctx context.Context, id stint.TaskID) (*stint.Graph, error) // nil: as ask does
	large    kept.Answers[*stint.Graph]

	mutex sync.Mutex
	holds []held // by which task others are asked for, the latest last
}

// Get returns the network around a task.
func (g *Networks) Get(ctx context.Context, id stint.TaskID) (*stint.Graph, error) {
	if by := g.by(id); by != id {
		// Otherwise that task is gone, or this one has left its network.
		if found, err := g.around(ctx, by); err == nil && found.has[id] {
			return found.Graph, nil
		}
	}
	found, err := g.around(ctx, id)
	if err != nil {
		return nil, err
	}
	return found.Graph, nil
}

// GetLarge is Get with ten times as many tasks, where the store can tell of so many in time.
func (g *Networks) GetLarge(ctx context.Context, id stint.TaskID) (*stint.Graph, error) {
	found, _, err := g.GetSoon(ctx, id, longest)
	return found, err
}

// GetSoon is GetLarge, which may take seconds. After patience it returns what GetLarge returned
// last or, for the first time, what Get returns; begun says that more is being read.
func (g *Networks) GetSoon(
	ctx context.Context, id stint.TaskID, patience time.Duration,
) (found *stint.Graph, begun bool, err error) {
	found, err = g.Get(ctx, id)
	if err != nil || !found.Cut || g.askLarge == nil {
		return found, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	large, err := g.large.Get(ctx, string(id), func(ctx context.Context) (*stint.Graph, error) {
		graph, err := g.askLarge(ctx, id)
		if err == nil {
			shorten(graph.Tasks)
		}
		return graph, err
	})
	if large != nil {
		return large, false, nil
	}
	return found, ctx.Err() != nil, nil // better than none, also if the store cannot tell of all
}

// by returns the task by which the network of another one was asked for, or that one itself.
func (g *Networks) by(id stint.TaskID) stint.TaskID {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	for _, h := range g.holds {
		if h.has[id] {
			return h.asked
		}
	}
	return id
}

func (g *Networks) around(ctx context.Context, id stint.TaskID) (*netAnswer, error) {
	return g.recent.Get(ctx, string(id), func(ctx context.Context) (*netAnswer, error) {
		graph, err := g.ask(ctx, id)
		found := &netAnswer{Graph: graph}
		if err == nil {
			shorten(graph.Tasks)
			found.has = make(map[stint.TaskID]bool, len(graph.Tasks))
			for i := range graph.Tasks {
				found.has[graph.Tasks[i].ID] = true
			}
		}
		g.note(id, found)
		return found, err
	})
}

// note notes which tasks a network has, unless there is none, or it goes on, so that others have
// another one.
func (g *Networks) note(id stint.TaskID, found *netAnswer) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.holds = slices.DeleteFunc(g.holds, func(h held) bool { return h.asked == id })
	if found.Graph == nil || found.Cut {
		return
	}
	if len(g.holds) == graphsMax {
		g.holds = slices.Delete(g.holds, 0, 1)
	}
	g.holds = append(g.holds, held{id, found.has})
}

// A netAnswer is the network around a task.
type netAnswer struct {
	*stint.Graph
	has map[stint.TaskID]bool
}

// A held network is one of which all tasks are known.
type held struct {
	asked stint.TaskID
	has   map[stint.TaskID]bool
}

const (
	// graphsMax is how many answers about networks are kept for those who ask the same.
	graphsMax = 8
	// largeTasksMax is how many tasks a large one has, and largeMax how many of these are kept.
	largeTasksMax, largeMax = 100_000, 2
	// longest is for how long anybody waits for one.
	longest = time.Minute
)
