// Package taskstore is a small task store on PostgreSQL: a place to put tasks, from which any
// number of processes take them, with one transaction for every change. It has tables of its own in
// the schema that the package migrations makes, and shares nothing else with the package stint.
//
// # Tasks
//
// A [Task] has an ID, a group, data, and an owner until its available time. It never changes: an
// update deletes it and adds its successor, which has a new, larger ID. So a client that knows an
// ID knows the task: either it still exists, unchanged, or another client has updated or deleted
// it. A group is only a name, and exists as long as it has tasks.
//
// [Store.Claim] gives a random available task of a group to a client, for a time: the client owns
// the successor, and no other client can update or delete it until the time has passed. Then any
// client may claim it. A client that was too slow finds that the ID it knows is gone, and abandons
// its work. To keep a task for longer, a client updates it with a later available time. A claim
// takes as long in a group of a million tasks as in a group of ten, however many of them are owned.
// Nothing runs in the background.
//
// [Store.Update] adds, updates and deletes tasks, all or none, and only if all tasks exist that it
// names, even those that it does not change ([Request.Depends]). So a worker that has done a task
// deletes it and adds the tasks that follow, in one transaction.
//
// # Times
//
// Times are in milliseconds since the Epoch, as whole numbers, on the clock of the database; the
// clocks of clients do not matter. A negative time in a request is a time from now: -60000 is a
// minute from now. 0 is now.
//
// # IDs
//
// No ID is used twice, even after a crash of the server. A call that begins after another has
// returned gives its tasks larger IDs than the other call did. The tasks of one call have IDs in
// the order in which it returns them. IDs of calls that run at the same time are mixed, and a task
// may become visible after one with a larger ID. IDs have gaps.
//
// # Broken connections
//
// A call whose context ends, or whose connection breaks, has taken effect completely or not at all.
// [Store.Update] and [Store.Claim] say what their callers can do then.
//
// [Handler] serves a store over HTTP, and the package client calls such a service.
package taskstore
