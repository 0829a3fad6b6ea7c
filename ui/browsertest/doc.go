// Package browsertest tests the web interface in Chromium. It is a module of its own, so that
// nobody who imports the library takes in what drives a browser.
//
//	go test ./...                              # skipped where there is no Chromium
//	go test -run Pictures -pictures /tmp/ui    # also takes pictures of all pages
//	go test -run DocsPictures -docs ../../docs/pictures    # takes those of the docs
package browsertest
