package stint

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/queuefloors"
)

// In each queue own_tasks looks at as many spans as there are tasks to hand out, since all of them
// may be in one. With more queues than these, and more spans in all, it is cheaper to ask first.
const (
	queuesUnasked    = 10
	headSpansUnasked = 2000
)

// A queueHead is the first spans of a queue.
type queueHead struct {
	looked int32 // how many there are at most
	spans  []headSpan
}

// A headSpan is where in its queue a span is, and of how many tasks.
type headSpan struct{ rank, tasks int64 }

// mayReach reports whether there may be more spans up to a rank.
func (h *queueHead) mayReach(rank int64, tasks int) bool {
	n := len(h.spans)
	return n == int(h.looked) && n < tasks && h.spans[n-1].rank < rank
}

// manyHeads reports whether own_tasks would look at many more spans than it hands out.
func manyHeads(look queuefloors.Look, tasks int) bool {
	queues := len(look.Actions)
	return queues > queuesUnasked && queues*tasks > headSpansUnasked
}

// narrow leaves out of a look at many queues what a hand-out of so many tasks does not come to, so
// that it costs what it hands out, and one probe of each queue.
func (s *Store) narrow(
	ctx context.Context, look queuefloors.Look, tasks int,
) (queuefloors.Look, error) {
	if !manyHeads(look, tasks) {
		return look, nil
	}
	queues := len(look.Actions)
	const growth = 4
	heads, pending := make([]queueHead, queues), make([]int, queues)
	for i := range heads {
		pending[i] = i
		heads[i].looked = int32(2*tasks/queues) + 1 //nolint:gosec,mnd // twice the mean
	}
	last := int64(math.MaxInt64)
	for len(pending) > 0 {
		if err := s.lookAtHeads(ctx, look, heads, pending); err != nil {
			return look, err
		}
		last = lastRank(heads, tasks)
		pending = slices.DeleteFunc(pending, func(i int) bool {
			return !heads[i].mayReach(last, tasks)
		})
		for _, i := range pending {
			heads[i].looked *= growth
		}
	}
	narrowed := queuefloors.Look{Whole: look.Whole}
	for i, head := range heads {
		if len(head.spans) > 0 && head.spans[0].rank <= last {
			narrowed.Actions = append(narrowed.Actions, look.Actions[i])
			narrowed.From = append(narrowed.From, look.From[i])
			narrowed.To = append(narrowed.To, min(look.To[i], last))
		}
	}
	return narrowed, nil
}

// lookAtHeads reads the heads of the queues that are pending.
func (s *Store) lookAtHeads(
	ctx context.Context, look queuefloors.Look, heads []queueHead, pending []int,
) error {
	actions := make([]string, len(pending))
	from, to := make([]int64, len(pending)), make([]int64, len(pending))
	spans := make([]int32, len(pending))
	for n, i := range pending {
		actions[n], from[n], to[n] = look.Actions[i], look.From[i], look.To[i]
		spans[n] = heads[i].looked
	}
	return s.run(ctx, step{
		name: "queue_heads", args: []any{actions, from, to, spans},
		read: func(rows pgx.Rows) error {
			for _, i := range pending {
				heads[i].spans = heads[i].spans[:0]
			}
			var number int64
			var span headSpan
			_, err := pgx.ForEachRow(rows, []any{&number, &span.rank, &span.tasks}, func() error {
				head := &heads[pending[number-1]]
				head.spans = append(head.spans, span)
				return nil
			})
			return err
		},
	})
}

// lastRank is the rank up to which the heads hold so many tasks, or the largest if they do not.
func lastRank(heads []queueHead, tasks int) int64 {
	var all []headSpan
	for _, head := range heads {
		all = append(all, head.spans...)
	}
	slices.SortFunc(all, func(a, b headSpan) int { return cmp.Compare(a.rank, b.rank) })
	left := int64(tasks)
	for _, span := range all {
		if left -= span.tasks; left <= 0 {
			return span.rank
		}
	}
	return math.MaxInt64
}
