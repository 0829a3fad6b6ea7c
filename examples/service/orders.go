package main

import (
	"context"
	_ "embed" // for the statements
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/worker"
)

//go:embed sql/create_orders.sql
var createOrders string

//go:embed sql/add_order.sql
var addOrder string

//go:embed sql/get_order.sql
var getOrder string

//go:embed sql/set_receipt.sql
var setReceipt string

// Charge is an action. Whoever inserts a task and whoever performs it use the same constant.
const Charge worker.Action[Order, Receipt] = "charge"

// An Order is a row of the table, and what the task is about.
type Order struct {
	ID       int64  `json:"id"`
	Item     string `json:"item"`
	Quantity int    `json:"quantity"`
	Receipt  string `json:"receipt,omitempty"`
}

// A Receipt is the result of a charge.
type Receipt struct{ Number string }

type service struct {
	pool  *pgxpool.Pool
	store *stint.Store
}

// waitMax is how long a request waits for its task.
const waitMax = 10 * time.Second

// routes is what the service answers. Requests that wait for a task stop waiting when waits ends.
func (s *service) routes(waits context.Context, metrics *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", s.postOrder)
	mux.HandleFunc("GET /orders/{id}", func(w http.ResponseWriter, r *http.Request) {
		s.getOrder(waits, w, r)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, r *http.Request) {
		if err := s.pool.Ping(r.Context()); err != nil {
			answer(w, http.StatusServiceUnavailable, "the database does not answer")
		}
	})
	return mux
}

func chargeID(order int64) stint.TaskID {
	return stint.TaskID(fmt.Sprintf("order/%d/charge", order))
}

// postOrder adds the order and its task, or neither.
func (s *service) postOrder(w http.ResponseWriter, r *http.Request) {
	const bodyBytesMax = 1 << 16
	var order Order
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, bodyBytesMax)).Decode(&order)
	if err != nil || order.Item == "" || order.Quantity < 1 {
		answer(w, http.StatusBadRequest, "an order has an item and a quantity")
		return
	}
	ctx := r.Context()
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, addOrder, order.Item, order.Quantity).Scan(&order.ID)
		if err != nil {
			return err
		}
		charge, err := Charge.Task(order)
		if err != nil {
			return err
		}
		charge.ID, charge.PostResult = chargeID(order.ID), true // so that requests can wait for it
		return s.store.WithTx(tx).InsertTasks(ctx, []stint.Task{charge})
	})
	if err != nil {
		fail(ctx, w, err)
		return
	}
	w.Header().Set("Location", "/orders/"+strconv.FormatInt(order.ID, 10))
	answer(w, http.StatusCreated, order)
}

// getOrder waits for the charge. The answer comes from the table, since the task is pruned one day.
func (s *service) getOrder(waits context.Context, w http.ResponseWriter, r *http.Request) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		answer(w, http.StatusNotFound, "there is no such order")
		return
	}
	waiting, cancel := context.WithTimeout(r.Context(), waitMax)
	defer cancel()
	defer context.AfterFunc(waits, cancel)()
	info, err := s.store.WaitForTask(waiting, chargeID(id))
	code := http.StatusOK
	switch {
	case err == nil && info.StatusCode == stint.StatusAborted:
		answer(w, http.StatusUnprocessableEntity, "the charge was given up: "+info.Status)
		return
	case err == nil, errors.Is(err, stint.ErrTaskNotFound): // no order, or one of long ago
	case waits.Err() != nil:
		w.Header().Set("Retry-After", "1")
		answer(w, http.StatusServiceUnavailable, "the service stops; ask again")
		return
	case waiting.Err() != nil:
		code = http.StatusAccepted // not charged yet
	default:
		fail(r.Context(), w, err)
		return
	}
	var order Order
	err = s.pool.QueryRow(r.Context(), getOrder, id).
		Scan(&order.ID, &order.Item, &order.Quantity, &order.Receipt)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		answer(w, http.StatusNotFound, "there is no such order")
	case err != nil:
		fail(r.Context(), w, err)
	default:
		answer(w, code, order)
	}
}

// charge performs the task. The receipt in the table and the end of the task are one commit.
func (s *service) charge(ctx context.Context, task *worker.Task, order Order) (Receipt, error) {
	// A payment provider would be called here, with task.ID as the idempotency key: it is the same
	// at every try.
	receipt := Receipt{Number: fmt.Sprintf("R-%06d", order.ID)}
	result, err := json.Marshal(receipt)
	if err != nil {
		return receipt, err
	}
	return receipt, pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, setReceipt, order.ID, receipt.Number); err != nil {
			return err
		}
		return task.ReturnIn(ctx, tx, worker.Result{Bytes: result})
	})
}

// answer writes a value, or a message, as JSON.
func answer(w http.ResponseWriter, code int, value any) {
	if message, ok := value.(string); ok {
		value = map[string]string{"error": message}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(value) // fails if the client has gone
}

// fail answers that something else than the request is wrong.
func fail(ctx context.Context, w http.ResponseWriter, err error) {
	slog.ErrorContext(ctx, "request failed", "error", err)
	answer(w, http.StatusInternalServerError, "the request failed; ask again")
}
