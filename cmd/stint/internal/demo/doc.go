// Package demo is the story that "stint demo" tells: a photo agency makes its yearbook.
//
// Films are scanned, their photos developed side by side, the photos of a film come on a page, the
// pages of a region into an index, and all of it into the book. Some photos fail at first, one film
// is lost and its branch of the network aborted, and one of two worker processes is killed. At the
// end the story checks that every task ended as it should have.
//
// To learn the library from it, read
//
//   - yearbook.go: the network, by the package structures;
//   - agency.go: the handlers, by the package worker;
//   - office.go: limits, pauses and schedules;
//   - story.go: what happens, by the verbs of the package stint;
//   - sprint.go: the verbs that a worker of your own would use, without any work to do.
//
// The rest is for show: process.go has the process that is killed, outcome.go checks, text.go and
// picture.go say what happens, and screen.go shows it.
package demo
