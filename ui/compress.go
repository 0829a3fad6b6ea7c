package ui

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/stint-tasks/stint/ui/internal/filters"
)

// shortest is the length below which answers are not compressed: they fit into a packet.
const shortest = 1400

// maySqueeze reports whether a page is compressed. The length of a compressed answer tells whoever
// sees the traffic whether a text that they chose is like another one of the page (the attack named
// BREACH). Pages hold no tokens, but what tasks hold may be secret. So pages with bodies are not
// compressed, nor what a link or a form of another site has a browser ask for, nor what comes
// from browsers that do not say which site asks.
func maySqueeze(r *request) bool {
	from := r.Header.Get("Sec-Fetch-Site")
	hasBodies := []string{"task", "value", "layout", "network"}
	return r.Method == http.MethodGet && (from == "same-origin" || from == "none") &&
		!slices.Contains(hasBodies, r.page.name) && !r.URL.Query().Has(filters.WithBody)
}

// acceptsGzip reports whether a browser takes answers that gzip has compressed.
func acceptsGzip(r *http.Request) bool {
	for name := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, quality, _ := strings.Cut(strings.ReplaceAll(name, " ", ""), ";")
		if name == "gzip" {
			return strings.Trim(strings.TrimPrefix(quality, "q="), "0.") != "" || quality == ""
		}
	}
	return false
}

//nolint:gochecknoglobals // writers take some hundred KiB each
var squeezers = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is one of them
	return w
}}

// squeezed is text compressed by gzip.
func squeezed(text []byte) []byte {
	var short bytes.Buffer
	w, ok := squeezers.Get().(*gzip.Writer)
	if !ok {
		return nil
	}
	defer squeezers.Put(w)
	w.Reset(&short)
	_, _ = w.Write(text) // to memory
	_ = w.Close()
	return short.Bytes()
}
