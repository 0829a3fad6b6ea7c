package ui

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"sync"

	"github.com/stint-tasks/stint/ui/internal/show"
)

//go:embed pages/*.html
var pageFiles embed.FS

// templates are the pages by the names of their files, each with the frame around it. They are
// never executed, but their clones.
//
//nolint:gochecknoglobals // never changes
var templates = sync.OnceValue(func() map[string]*template.Template {
	frame := template.Must(template.New("frame").Funcs(functions()).ParseFS(pageFiles,
		"pages/frame.html", "pages/parts.html"))
	all := map[string]*template.Template{}
	files, _ := pageFiles.ReadDir("pages") // which is always there
	for _, file := range files {
		name := strings.TrimSuffix(file.Name(), ".html")
		if name != "frame" && name != "parts" {
			all[name] = template.Must(template.Must(frame.Clone()).ParseFS(pageFiles,
				"pages/"+file.Name()))
		}
	}
	return all
})

// commandPages are the templates of pages whose commands have some flags, made when first needed.
type commandPages struct {
	mutex sync.Mutex
	known map[commandPage]*template.Template
}

type commandPage struct{ name, flags string }

// of returns the template of a page whose commands have these flags.
func (c *commandPages) of(name, flags string) *template.Template {
	const most = 200 // a service has as many flags as names under which it is reached
	c.mutex.Lock()
	defer c.mutex.Unlock()
	at := commandPage{name, flags}
	if c.known[at] == nil {
		if c.known == nil || len(c.known) == most {
			c.known = map[commandPage]*template.Template{}
		}
		c.known[at] = template.Must(templates()[name].Clone()).Funcs(template.FuncMap{
			"command": func(line string) string { return commandWith(line, flags) },
		})
	}
	return c.known[at]
}

// commandWith is a command line with flags, such as those that say which store is meant. The demo
// has a store of its own.
func commandWith(line, flags string) string {
	last := line[strings.LastIndex(line, "| ")+1:]
	if flags == "" || !strings.HasPrefix(strings.TrimSpace(last), "stint ") ||
		strings.HasPrefix(last, "stint demo") {
		return line
	}
	return line + " " + flags
}

// A view is what a page shows.
type view struct {
	name  string // of the template
	title string // empty: that of the navigation
	data  any
	still bool // it does not change, or not often: there is no need to look again
}

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

// Name and Heading are for the navigation.
func (p page) Name() string {
	if p.name == "" {
		return "./"
	}
	return p.name
}

// Heading is what the navigation calls the page.
func (p page) Heading() string { return p.title }

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
	for _, p := range allPages() {
		_, ok := h.pages[p.name]
		if ok && p.title != "" && (p.needs == Read || r.may(p.needs)) {
			f.Navigation = append(f.Navigation, p)
		}
	}
	var text bytes.Buffer
	flags := h.options.CommandFlags(r.Request)
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
