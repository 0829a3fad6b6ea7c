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
// Each test has a database of its own, a copy of one that was migrated before, so tests do not
// affect one another.
//
// There is no clock to fake, since the only clock is the database's. Instead of waiting, a test
// makes a task due ([MakeDue]), a lease expire ([ExpireLeases]) or a deadline pass
// ([PassDeadlines]), or drains scheduled tasks as well ([WithScheduled]).
//
// [TryEveryCrash] finds the crashes that a handler does not survive.
//
// # The server
//
// [New] makes its databases on the server named by the environment variable
// STINT_TEST_DATABASE_URL, whose role must be allowed to create databases. Without the variable,
// the package starts a private server from the PostgreSQL programs on this machine, which it finds
// by STINT_PG_BIN, in PATH and in the usual places. If there are none, it downloads them once, into
// the user's cache directory. To use a container, start it yourself and put its address into
// STINT_TEST_DATABASE_URL, or open a pool and use [NewOn]: this package does not add a container
// client to the module that uses it.
package stinttest
