package ui

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"net/http"
	"path"
	"strings"
	"sync"
)

//go:embed static/*
var assetFiles embed.FS

// An asset is a file that pages refer to by the hash of what it holds, so that browsers may keep it
// for ever.
type asset struct {
	name    string
	content []byte
	short   []byte // compressed
	kind    string
}

// assets are the files by their names with hashes.
//
//nolint:gochecknoglobals // never changes
var assets = sync.OnceValue(func() map[string]asset {
	kinds := map[string]string{
		".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
		".svg": "image/svg+xml",
	}
	all := map[string]asset{}
	files, _ := assetFiles.ReadDir("static") // which is always there
	for _, file := range files {
		content, _ := assetFiles.ReadFile("static/" + file.Name())
		sum := sha256.Sum256(content)
		extension := path.Ext(file.Name())
		name := strings.TrimSuffix(file.Name(), extension) + "." +
			base64.RawURLEncoding.EncodeToString(sum[:9]) + extension
		all[name] = asset{file.Name(), content, squeezed(content), kinds[extension]}
	}
	return all
})

// assetName is the name of a file with its hash.
func assetName(file string) string {
	for name, a := range assets() {
		if a.name == file {
			return name
		}
	}
	return ""
}

// serveAsset sends a file, if it is one.
func serveAsset(w http.ResponseWriter, r *http.Request, name string) bool {
	a, ok := assets()[name]
	if !ok || r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	w.Header().Set("Content-Type", a.kind)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	w.Header().Set("Vary", "Accept-Encoding")
	if acceptsGzip(r) { // the same for everybody: it tells nothing
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(a.short)
		return true
	}
	_, _ = w.Write(a.content) // whoever has gone needs no answer
	return true
}
