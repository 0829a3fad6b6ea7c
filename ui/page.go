package ui

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"

	"github.com/stint-tasks/stint/ui/internal/show"
)

// shown is a page that is shown from a view.
func shown(
	look func(h *Handler, r *request) (view, error),
) func(h *Handler, w http.ResponseWriter, r *request) error {
	return func(h *Handler, w http.ResponseWriter, r *request) error {
		found, err := look(h, r)
		if err != nil {
			return err
		}
		return h.write(w, r, http.StatusOK, found)
	}
}

// A frame is what is around each page.
type frame struct {
	Site, Title   string
	Here          string // the name of the page, or of the one that it belongs to
	Navigation    []page
	Up            string // leads to the pages of all shards; empty if these are not those of one
	Folder        string // leads to that of the pages, if they are named from another one
	Now           string
	Missing       []string
	Live          bool
	Partly        bool // what whoever asks may not see is left out
	Style, Script string
	Icon          string
	Data          any
}

// belongsTo are the pages of the navigation that lead to others.
func belongsTo(name string) string {
	switch name {
	case "task", "network":
		return "tasks"
	case "action":
		return "actions"
	case "alike":
		return "problems"
	}
	return name
}

// write sends a page, unless the browser has the same already.
func (h *Handler) write(w http.ResponseWriter, r *request, code int, v view) error {
	f := frame{
		Site: h.options.Title, Title: v.title, Here: belongsTo(r.page.name), Now: show.Exact(r.now),
		Live: !v.still && code == http.StatusOK, Data: v.data, Missing: h.options.Missing(),
		Partly: r.partly && code == http.StatusOK,
		Up:     h.up, Folder: r.up,
		Style: assetName("ui.css"), Script: assetName("ui.js"), Icon: assetName("icon.svg"),
	}
	if f.Title == "" {
		f.Title = r.page.title
	}
	for _, p := range h.navigation {
		if p.needs == Read || r.may(p.needs) {
			f.Navigation = append(f.Navigation, p)
		}
	}
	var text bytes.Buffer
	flags := h.options.CommandFlags(r.Request)
	if h.all != nil { // with the flags of all shards a command would mean other tasks than the page
		flags = noCommands
	}
	if err := h.templates.of(v.name, flags).ExecuteTemplate(&text, "frame", f); err != nil {
		return fmt.Errorf("write page %s: %w", v.name, err)
	}
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Stint-Now", f.Now)
	if code == http.StatusOK && r.Method != http.MethodPost {
		tag := tagOf(text.Bytes())
		header.Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	if code == http.StatusOK && text.Len() >= shortest && maySqueeze(r) && acceptsGzip(r.Request) {
		header.Set("Content-Encoding", "gzip")
		text = *bytes.NewBuffer(squeezed(text.Bytes()))
	}
	w.WriteHeader(code)
	_, _ = w.Write(text.Bytes()) // whoever has gone needs no answer
	return nil
}

// tagOf is a tag for what a page says, whatever its times say of their distance from now: the
// script counts these on by itself.
func tagOf(text []byte) string {
	sum := sha256.New()
	for {
		before, after, found := bytes.Cut(text, []byte("<time "))
		sum.Write(before)
		if !found {
			break
		}
		element, rest, _ := bytes.Cut(after, []byte("</time>"))
		if !bytes.HasPrefix(element, []byte(`id="now"`)) {
			attributes, _, _ := bytes.Cut(element, []byte(">"))
			sum.Write(attributes)
		}
		text = rest
	}
	return `W/"` + base64.RawURLEncoding.EncodeToString(sum.Sum(nil)[:15]) + `"`
}
