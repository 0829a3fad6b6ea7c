// Package openapi has the description of the service's JSON calls in OpenAPI 3.1, from which
// programs generate clients and documentation. It does not describe the streams.
//
//	mux.Handle("/openapi.json", openapi.Handler())
//
// buf generate writes it, from the descriptors and comments of api/proto/stint/v1.
package openapi

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"net/http"
	"time"
)

//go:embed openapi.json
var document []byte

// Handler answers GET and HEAD with the description, whatever the path. It has no secrets: it is
// the same for every service of a release.
func Handler() http.Handler {
	sum := sha256.Sum256(document)
	tag := `"` + hex.EncodeToString(sum[:8]) + `"`
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("ETag", tag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(document))
	})
}
