package main

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// W11 leaves spans of one and of many behind, with edges and without, and tells its course.
func TestMixedLoad_HasSpansOfAllSizesAndNetworks(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, err := startServer(ctx, quickServer())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.close(ctx); err != nil {
			t.Error(err)
		}
	}()
	for _, load := range mixedLoads() {
		url, err := s.newDatabase(ctx)
		if err != nil {
			t.Fatal(err)
		}
		j := job{
			Contender: "stint", Workload: "W11", Variant: load.variant, Fill: true, URL: url,
			BodyBytes: smallBody, Lasts: 2 * time.Second,
		}
		if _, err := delegate(ctx, j); err != nil {
			t.Fatal(err)
		}
		j.Fill = false
		found, err := delegate(ctx, j)
		if err != nil {
			t.Fatal(err)
		}
		first, last := found.Looks[0], found.Looks[len(found.Looks)-1]
		if first.Completed >= last.Completed || first.WAL >= last.WAL ||
			first.bytes() >= last.bytes() || last.Completed > int64(found.Tasks) {
			t.Errorf("%s went from %+v to %+v, want more", load.variant, first, last)
		}
		if !slices.ContainsFunc(last.Tables, func(t tableSize) bool { return t.Name == "tasks" }) {
			t.Errorf("%s looked at %+v, want tasks among them", load.variant, last.Tables)
		}
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			t.Fatal(err)
		}
		var ones, many, edges, joins int
		look := func() {
			err := conn.QueryRow(ctx, `
				SELECT (SELECT count(*) FROM stint.finished WHERE lo = hi AND status <> ''),
				       (SELECT count(*) FROM stint.finished WHERE hi - lo > 30),
				       (SELECT count(*) FROM stint.edges), (SELECT count(*) FROM stint.joined)`).
				Scan(&ones, &many, &edges, &joins)
			if err != nil {
				t.Fatal(err)
			}
		}
		// On a busy machine no network comes to its join in two seconds.
		for look(); load.networks && joins == 0; look() {
			if _, err := delegate(ctx, j); err != nil {
				t.Fatal(err)
			}
		}
		if ones == 0 || many == 0 || (edges > 0) != load.networks || (joins > 0) != load.networks {
			t.Errorf("%s has %d spans of one with a status text, %d of many, %d edges, %d joins",
				load.variant, ones, many, edges, joins)
		}
		if err := conn.Close(ctx); err != nil {
			t.Error(err)
		}
	}
}

func TestLooks_MeetThirdsAndTenths(t *testing.T) {
	t.Parallel()
	for lasts, want := range map[time.Duration]int{
		time.Second: 30, time.Minute: 30, 2 * time.Minute: 30, 5 * time.Minute: 60,
		10 * time.Minute: 120,
	} {
		if got := looks(lasts); got != want {
			t.Errorf("looks(%s) = %d, want %d", lasts, got, want)
		}
	}
}
