// Package stinttest helps to test programs that use package stint, against a real PostgreSQL.
//
//	func TestMain(m *testing.M) { stinttest.Main(m) }
//
//	func TestSignUp_SendsMail(t *testing.T) {
//		t.Parallel()
//		store := stinttest.New(t, stint.Options{})
//		signUp(t, store.Store, "ann")
//		stinttest.RequireInserted(t, store, stint.Task{Action: "mail", Body: []byte("ann")})
//		stinttest.Drain(t, store, newWorker(t, store.Store))
//		...
//	}
//
// Each test has a database of its own, a copy of one that was migrated before, so tests need not
// know of one another.
//
// There is no clock to fake: the database is the only one. Instead of waiting, a test makes a task
// due ([MakeDue]), a lease expire ([ExpireLeases]) or a deadline pass ([PassDeadlines]), or drains
// in spite of the time ([WithScheduled]).
//
// # The server
//
// [New] makes its databases on the server named by the environment variable
// STINT_TEST_DATABASE_URL, whose role must be allowed to create databases. Without it, the package
// starts a private server from the PostgreSQL programs on this machine, named by STINT_PG_BIN or
// looked for in PATH and the usual places; where there are none, it downloads some once, into the
// user's cache directory. Containers are up to the caller, who puts the address into
// STINT_TEST_DATABASE_URL, or opens a pool and uses [NewOn]; so this package does not bring a
// client for them into the module that uses it.
package stinttest
