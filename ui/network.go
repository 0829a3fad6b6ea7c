package ui

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/ui/internal/graphs"
	"github.com/stint-tasks/stint/ui/internal/refuse"
	"github.com/stint-tasks/stint/ui/internal/show"
	"github.com/stint-tasks/stint/ui/internal/why"
)

// networkPage shows the network of a task as a picture, and as a list.
func networkPage(h *Handler, r *request) (view, error) {
	id := stint.TaskID(r.URL.Query().Get("id"))
	graph, begun, err := h.asked.Graphs.GetSoon(r.Context(), id, patience)
	if err != nil {
		return view{}, err
	}
	data := graphs.NewView(graphs.NewNet(graph, id, r.may(ReadBodies)), r.URL.Query(), r.now)
	if begun && data.Canvas != nil { // the places of its boxes are those of all
		if graph, err = h.asked.Graphs.GetLarge(r.Context(), id); err != nil {
			return view{}, err
		}
		begun = false
		data = graphs.NewView(graphs.NewNet(graph, id, r.may(ReadBodies)), r.URL.Query(), r.now)
	}
	data.Partly, data.Begun = r.partly, begun
	if data.Chain != nil { // its first task says what the network waits for; most is known without
		if found, err := h.asked.Task(r.Context(), data.Chain.First.ID); err == nil &&
			!show.IsFinal(found.Why.Task.State) {
			e := found.Why
			e.Now = r.now
			data.Chain.Why = why.Of(&e).Headline
		}
	}
	return view{name: "network", title: "Network of " + show.Text(id), data: data}, nil
}

// patience is for how long whoever opens a page waits for all of a large network.
const patience = 500 * time.Millisecond

// placesMax is how many large pictures are kept.
const placesMax = 4

// serveLayout sends the places of all boxes of a network.
func serveLayout(h *Handler, w http.ResponseWriter, r *request) error {
	id := stint.TaskID(r.URL.Query().Get("id"))
	graph, err := h.asked.Graphs.GetLarge(r.Context(), id)
	if err != nil {
		return err
	}
	n := graphs.NewNet(graph, id, false) // without texts
	if !n.Fits() {
		return refuse.ErrManyArrows
	}
	found, err := h.places.Get(r.Context(), string(id)+" "+n.Version(),
		func(context.Context) (*graphs.Places, error) { return n.Places(), nil })
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	var to io.Writer = w
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		zipped, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // which is a level
		defer zipped.Close()                                //nolint:errcheck // as below
		to = zipped
	}
	_ = json.NewEncoder(to).Encode(found) // whoever has gone needs none
	return nil
}
