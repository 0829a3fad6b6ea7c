package stint_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// A purse is a bucket of the model, of 100 tokens an hour.
type purse float64

func (p *purse) age(minutes int) { *p = min(100, *p+purse(minutes)*100/60) }

// spendingModel is what the buckets of an action and of its keys should hold, and what waits.
type spendingModel struct {
	store   *stint.Store
	pool    *pgxpool.Pool
	keyed   bool
	action  purse
	keys    map[string]*purse
	waiting map[stint.TaskID]stint.Task
	owned   []stint.OwnedTask
	costs   map[stint.TaskID]int
	spent   map[string]int // by key, more than was taken, until the next fetch settles it
	made    int
}

// Buckets are never overdrawn by more than one task, nothing waits that could start, and what was
// spent is settled to the token, whatever the order of calls.
// Proves G342.
func TestBudgets_AreExact(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, limits := range map[string]stint.Limits{
		"action":   {Rate: anHour},
		"keys":     {RatePerKey: anHour},
		"both":     {Rate: stint.Rate{Tasks: 300, Per: time.Hour, Burst: 300}, RatePerKey: anHour},
		"slots":    {RatePerKey: anHour, ConcurrencyPerKey: 2},
		"in order": {RatePerKey: anHour, Ordered: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limits.ByCost = true
			for range testrun.Rounds(2) {
				playBudget(t, limits)
			}
		})
	}
}

func playBudget(t *testing.T, limits stint.Limits) {
	t.Helper()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	store, pool := newLimitedStore(t, limits)
	m := &spendingModel{
		store: store, pool: pool, keyed: limits.RatePerKey != stint.Rate{},
		action: purse(limits.Rate.Burst), keys: map[string]*purse{},
		waiting: map[stint.TaskID]stint.Task{}, costs: map[stint.TaskID]int{},
		spent: map[string]int{},
	}
	for step := range 150 {
		err := m.step(t, r, limits)
		if err != nil {
			t.Fatalf("seed %d, step %d: %v", seed, step, err)
		}
	}
}

func (m *spendingModel) step(t *testing.T, r *rand.Rand, limits stint.Limits) error {
	t.Helper()
	switch r.IntN(6) {
	case 0:
		m.insert(t, r)
	case 1, 2, 3:
		return m.own(t, r, limits)
	case 4:
		m.giveBack(t, r)
	case 5:
		minutes := r.IntN(40)
		exec(t, m.pool, fmt.Sprintf(`UPDATE stint.limits
			SET refilled_at = refilled_at - interval '%d min'`, minutes))
		exec(t, m.pool, fmt.Sprintf(`UPDATE stint.key_rates SET
			full_at = full_at - interval '%d min', wake_at = wake_at - interval '%[1]d min'`,
			minutes))
		if limits.Rate != (stint.Rate{}) {
			m.action = min(purse(limits.Rate.Burst),
				m.action+purse(minutes*limits.Rate.Tasks)/60)
		}
		for _, key := range m.keys {
			key.age(minutes)
		}
	}
	return nil
}

func (m *spendingModel) insert(t *testing.T, r *rand.Rand) {
	t.Helper()
	var tasks []stint.Task
	for range 1 + r.IntN(5) {
		m.made++
		task := stint.Task{
			ID: stint.TaskID(fmt.Sprintf("t%04d", m.made)), Action: "act",
			Key: fmt.Sprint("k", r.IntN(3)), Cost: r.IntN(60),
		}
		if r.IntN(10) == 0 {
			task.Cost = 250
		}
		if m.keys[task.Key] == nil {
			full := purse(100)
			m.keys[task.Key] = &full
		}
		m.waiting[task.ID], m.costs[task.ID] = task, max(1, task.Cost)
		tasks = append(tasks, task)
	}
	insert(t, m.store, tasks...)
}

// own fetches a task, and compares that with what the buckets let. Tokens that come while the test
// runs blur the last one.
func (m *spendingModel) own(t *testing.T, r *rand.Rand, limits stint.Limits) error {
	t.Helper()
	const blur = 0.5
	rated := limits.Rate != stint.Rate{}
	owned, err := m.store.OwnTasks(t.Context(), "worker", 1+r.IntN(5), []string{"act"}, time.Hour)
	if err != nil {
		return err
	}
	if len(owned) > 1 {
		return fmt.Errorf("a fetch got %d tasks", len(owned))
	}
	for key, more := range m.spent { // what a full bucket cannot hold is lost
		m.take(key, more)
		*m.keys[key] = min(*m.keys[key], 100)
	}
	m.action = min(m.action, purse(limits.Rate.Burst))
	clear(m.spent)
	held := map[string]int{}
	for _, task := range m.owned {
		held[task.Key]++
	}
	if len(owned) == 0 {
		for _, task := range m.waiting {
			most := max(limits.ConcurrencyPerKey, 1)
			full := (limits.ConcurrencyPerKey > 0 || limits.Ordered) && held[task.Key] >= most
			if !full && (!rated || m.action >= 1+blur) &&
				(!m.keyed || *m.keys[task.Key] >= 1+blur) {
				return fmt.Errorf("%s waits, with %v tokens of the action and %v of its key",
					task.ID, m.action, *m.keys[task.Key])
			}
		}
		return nil
	}
	task := owned[0]
	if rated && m.action < 1-blur || m.keyed && *m.keys[task.Key] < 1-blur {
		return fmt.Errorf("%s starts, with %v tokens of the action and %v of its key",
			task.ID, m.action, *m.keys[task.Key])
	}
	m.take(task.Key, m.costs[task.ID])
	m.owned = append(m.owned, task)
	delete(m.waiting, task.ID)
	return m.compare(t, rated)
}

func (m *spendingModel) take(key string, tokens int) {
	m.action -= purse(tokens)
	*m.keys[key] -= purse(tokens)
}

// compare compares the bucket of the action.
func (m *spendingModel) compare(t *testing.T, rated bool) error {
	t.Helper()
	list, err := m.store.ListLimits(t.Context(), "act")
	if err != nil {
		return err
	}
	if off := list[0].Tokens - float64(m.action); rated && (off < -1 || off > 1) {
		return fmt.Errorf("the bucket has %v tokens, want %v", list[0].Tokens, m.action)
	}
	return nil
}

// giveBack returns a task, for another try perhaps, and says perhaps what was spent.
func (m *spendingModel) giveBack(t *testing.T, r *rand.Rand) {
	t.Helper()
	if len(m.owned) == 0 {
		return
	}
	i := r.IntN(len(m.owned))
	task := m.owned[i]
	m.owned = append(m.owned[:i], m.owned[i+1:]...)
	back := stint.Return{ID: task.ID, Token: task.Token, Code: stint.StatusCompleted}
	if r.IntN(4) == 0 {
		back.Code = stint.StatusPending
		m.waiting[task.ID] = stint.Task{ID: task.ID, Key: task.Key}
	}
	if r.IntN(3) > 0 {
		spent := r.IntN(120)
		back.Spent = &spent
		m.spent[task.Key] += spent - m.costs[task.ID]
	}
	verdicts, err := m.store.ReturnTasks(t.Context(), []stint.Return{back})
	if err != nil || verdicts[0] != nil {
		t.Fatalf("ReturnTasks = %v, %v", verdicts, err)
	}
}
