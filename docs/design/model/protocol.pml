/* The protocol of Stint: who may do what to a task, and what follows for others (README.md).
 *
 * Each verb is one transaction, so one atomic step. What is not atomic is what somebody knows
 * against what the rows say: the token of an owner, the lease that a maintainer saw expired, the
 * message that wakes a caller. Time only passes: any lease may expire, any deadline come.
 */
#include "configurations.pml"

/* The states, with the words of lifecycle.md. */
#define GONE 0        /* state: gone */
#define BLOCKED 1     /* state: blocked */
#define SCHEDULED 2   /* state: scheduled */
#define READY 3       /* state: ready */
#define PARKED 4      /* state: ready, parked */
#define LATE 5        /* state: ready, late */
#define OWNED 6       /* state: in progress */
#define SAME 7        /* state: in progress, same owner */
#define COMPLETED 8   /* state: completed */
#define SKIPPED 9     /* state: skipped */
#define RETURNED 10   /* state: aborted (returned) */
#define EXHAUSTED 11  /* state: aborted (tries) */
#define DEPENDENCY 12 /* state: aborted (dependency) */
#define EXPIRED 13    /* state: aborted (expired) */
#define CANCELLED 14  /* state: aborted (cancelled) */
#define REPLACED 15   /* state: aborted (replaced) */

#define ENDED(t) (state[t] >= COMPLETED)
#define ABORTED(end) (end >= RETURNED && end <= REPLACED)
#define STARTED(t) (state[t] >= LATE)
#define UNFINISHED(t) (state[t] != GONE && !ENDED(t))
#define ENDS(how) (how >= COMPLETED)
#define TO_START(t) (state[t] == SCHEDULED || state[t] == READY || state[t] == PARKED)

#define AWAITED (TASKS - 1) /* the task that callers wait for */

byte state[TASKS];
byte tries[TASKS];
byte claim[TASKS];   /* of the last fetch; 0: none */
bool late[TASKS];    /* ended by the expiry of its last try, and its owner may still say why */
bool passed[TASKS];  /* its Deadline */
byte part[TASKS];    /* tasks in progress with one claim and part share a lease */
bool due[TASKS];     /* their lease has expired */
byte slot;           /* in strict order: the task, plus one, that was the last to hold the key */
byte known[WORKERS * TASKS]; /* the token that a worker has for a task */
byte inserted;       /* how many of the tasks operators have inserted */
byte budget = BUDGET;/* how many changes operators may yet make */
bool quiet;          /* operators are through */
bool topic, news, woken; /* a caller waits for the last task; a message is due; it has arrived */

/* What nobody keeps, for what must hold. */
byte owner[TASKS];   /* the worker, plus one, that the task was last given to */
byte given[TASKS];   /* how often it was given, less what was given back unstarted */

byte t, u, w, c;     /* of the step that is being made; 0 between steps */

#define QUIET (quiet && OVER(0) && OVER(1 % TASKS) && OVER(2 % TASKS) && OVER(3 % TASKS))
#define OVER(t) (state[t] == GONE || ENDED(t))

/* Chooses a task for which `may` holds; the step cannot be made if there is none. */
#define CHOOSE(may) if :: may(0) -> t = 0 :: TASKS > 1 && may(1 % TASKS) -> t = 1 \
  :: TASKS > 2 && may(2 % TASKS) -> t = 2 :: TASKS > 3 && may(3 % TASKS) -> t = 3 fi

#include "moves.pml"
#include "network.pml"

/* --- strict order: tasks of one key, the oldest first -------------------------------------- */

#define HOLDS(t) (slot == (t) + 1 && UNFINISHED(t))
#define HELD (slot != 0 && UNFINISHED(slot - 1))
#define WAITS(u) (state[u] == READY || state[u] == PARKED || state[u] == LATE)
#define FIRST(t) (!((t) > 0 && WAITS(0)) && !((t) > 1 && WAITS(1 % TASKS)) \
  && !((t) > 2 && WAITS(2 % TASKS)))
#define NEXT(t) (!ORDERED || HOLDS(t) || !HELD && (FIRST(t) || MUTANT == overtaken))

/* Brings the first parked task back if nothing holds the key. */
inline unpark() {
  if
  :: ORDERED && !HELD && MUTANT != unparked ->
     u = 0;
     do
     :: u < TASKS && state[u] == PARKED -> move(u, READY); break
     :: u < TASKS && state[u] != PARKED -> u++
     :: u == TASKS -> break
     od;
     u = 0
  :: else
  fi
}

/* A token that is not that of the last fetch can never become it again: all of these are one. */
#define STALE 255
inline compare_tokens() {
  u = 0;
  do
  :: u < TASKS * WORKERS ->
     if :: known[u] != 0 && known[u] != claim[u % TASKS] -> known[u] = STALE :: else fi;
     u++
  :: else -> break
  od;
  u = 0
}

/* The end of each verb, in the same step: control goes from the caller to the store. */
chan commit = [0] of { bit };
proctype store() {
end:
  do
  :: atomic { commit?_ -> d_step {
       settle(); unpark(); compare_tokens(); check(); t = 0; c = 0 } }
  od
}

/* --- owners ---------------------------------------------------------------------------------- */

#define MINE(t) known[me * TASKS + (t)]
#define FETCHABLE(t) ((state[t] == READY || state[t] == LATE) \
  && (!passed[t] || MUTANT == overdue) && !EXTERNAL(t) && NEXT(t))
#define FETCHABLE_TOGETHER(t) (TOGETHER && FETCHABLE(t))
#define BARRED(t) (ORDERED && state[t] == READY && HELD && !HOLDS(t))
#define EXTENDABLE(t) (EXTENDS && HAS_TOKEN(t))
#define HAS_TOKEN(t) (MINE(t) != 0)
#define VALID(t) ((state[t] == OWNED || state[t] == LATE \
    || state[t] == READY && MUTANT == repeated) \
  && (claim[t] == MINE(t) || MUTANT == token))

/* The claim of a fetch. Claims are only compared, so one that no row has may come again. */
inline new_claim() {
  c = 1; u = 0;
  do
  :: u < TASKS && claim[u] == c -> c++; u = 0
  :: u < TASKS && claim[u] != c -> u++
  :: u == TASKS -> break
  od;
  u = 0
}

/* Nobody has the token of the next fetch. */
inline outdate(x) {
  w = 0;
  do
  :: w < WORKERS ->
     if :: known[w * TASKS + x] != 0 -> known[w * TASKS + x] = STALE :: else fi; w++
  :: else -> break
  od;
  w = 0
}

inline give(x) {
  assert(!passed[x]);
  move(x, OWNED);
  if
  :: MUTANT != old_claim || claim[x] == 0 -> outdate(x); claim[x] = c
  :: else
  fi;
  MINE(x) = claim[x];
  if :: MUTANT != uncounted -> tries[x]++ :: else fi;
  given[x]++;
  assert(given[x] <= TRIES);
  owner[x] = me + 1;
  if :: ORDERED -> slot = x + 1 :: else fi
}

/* The verb of an owner is accepted: that of the last one. An expiry is undone (R8). */
inline accept(x) {
  assert(owner[x] == me + 1);
  assert(!ENDED(x));
  if :: state[x] == LATE -> revive(x) :: else fi
}

/* A task that comes back late, or is extended apart, has another lease than the others. */
inline lease_apart(x) {
  u = 0;
  do
  :: u < TASKS ->
     if
     :: u != x && state[u] == OWNED && claim[u] == claim[x] && part[u] == part[x] -> part[x]++; u = 0
     :: else -> u++
     fi
  :: else -> break
  od;
  u = 0
}

inline give_back(x, to) { /* as pending, or unstarted, which refunds the try */
  if
  :: tries[x] >= TRIES && !(to == SAME) && MUTANT != endless -> finish(x, EXHAUSTED)
  :: else ->
     if
     :: to == SAME -> tries[x]--; given[x]--; move(x, READY)
     :: to == READY || to == SCHEDULED ->
        if :: MUTANT == refunded -> tries[x]-- :: else fi;
        move(x, to)
     fi;
     if :: MUTANT == let_go -> slot = 0 :: else fi;
     if :: MUTANT == signalled -> over[x] = COMPLETED :: else fi
  fi
}

proctype worker(byte me) {
  byte how;
  do
  :: atomic { CHOOSE(FETCHABLE); d_step { /* OwnTasks of one task */
       new_claim(); give(t) } commit!0 }
  :: atomic { CHOOSE(FETCHABLE_TOGETHER); d_step { /* of all that are ready, in one lease */
       new_claim(); t = 0;
       do
       :: t < TASKS -> if :: FETCHABLE(t) -> give(t) :: else fi; t++
       :: else -> break
       od;
       t = 0 } commit!0 }
  :: atomic { CHOOSE(BARRED); d_step { move(t, PARKED) } commit!0 } /* OwnTasks meets it */
  :: atomic { CHOOSE(HAS_TOKEN); /* ReturnTask */
       if
       :: how = COMPLETED
       :: RETURNS & ABORTED_TOO -> how = RETURNED
       :: how = READY
       :: RETURNS & TRIED_LATER -> how = SCHEDULED /* with RetryAfter */
       :: RETURNS & UNSTARTED -> how = SAME /* Release */
       fi;
       d_step {
         if
         :: VALID(t) ->
            accept(t);
            if
            :: ENDS(how) -> finish(t, how)
            :: else -> give_back(t, how)
            fi
         :: !VALID(t) && late[t] && claim[t] == MINE(t) && how == READY ->
            assert(owner[t] == me + 1); late[t] = false /* its last try expired: says why, once */
         :: else
         fi;
         if :: !REPEATS -> MINE(t) = 0 :: else fi; /* else the answer is lost, and it tries again */
         how = 0 } commit!0 }
  :: atomic { CHOOSE(EXTENDABLE); d_step { /* ExtendTasksOwnership of one task */
       if
       :: VALID(t) || MUTANT == extended && UNFINISHED(t) ->
          accept(t); lease_apart(t); due[t] = false
       :: else -> MINE(t) = 0
       fi } commit!0 }
  :: atomic { CHOOSE(HAS_TOKEN); MINE(t) = 0; t = 0 } /* dies, or has got the answer */
  :: QUIET -> break
  od
}

/* --- time, and those who maintain ------------------------------------------------------------ */

#define MAY_EXPIRE(t) (state[t] == OWNED && !due[t])
#define MAY_PASS(t) (DEADLINES && UNFINISHED(t) && !passed[t])
#define HAS_COME(t) (state[t] == SCHEDULED)

proctype clock() {
  do
  :: atomic { CHOOSE(MAY_EXPIRE); d_step { /* also: the process of the actor is gone */
       u = 0;
       do
       :: u < TASKS ->
          if
          :: state[u] == OWNED && claim[u] == claim[t] && part[u] == part[t] -> due[u] = true
          :: else
          fi;
          u++
       :: else -> break
       od;
       u = 0; t = 0 } }
  :: atomic { CHOOSE(MAY_PASS); passed[t] = true; t = 0 }
  :: atomic { CHOOSE(HAS_COME); d_step { promote(t) } commit!0 }
  :: QUIET -> break
  od
}

#define IS_DUE(t) (state[t] == OWNED && due[t])
#define IS_NEWS(t) (saw == 0 && IS_DUE(t))
#define IS_OVERDUE(t) (UNFINISHED(t) && passed[t])
#define WAITED(t, d) ((d) > (t) && EDGE(t, d) != 0 && state[d] != GONE && state[d] != COMPLETED)
#define AWAITED_BY_SOME(t) (WAITED(t, 1 % TASKS) || WAITED(t, 2 % TASKS) || WAITED(t, 3 % TASKS))
#define MAY_LEAVE(t) (PRUNES && ENDED(t) && (!AWAITED_BY_SOME(t) || MUTANT == pruned))

/* Takes back what a lease still holds: of the tasks with tries left. */
inline reclaim(x) {
  c = part[x]; u = 0;
  do
  :: u < TASKS ->
     if
     :: (state[u] == OWNED && part[u] == c || MUTANT == cut_lease && u != x) && claim[u] == seen &&
        (tries[u] < TRIES || MUTANT == forever) ->
        assert(due[u]);
        move(u, LATE)
     :: else
     fi;
     u++
  :: else -> break
  od;
  u = 0; c = 0
}

/* What it has seen may be over when it acts: several maintain. */
proctype maintainer() {
  byte saw, seen;
  do
  :: atomic { CHOOSE(IS_NEWS); saw = t + 1; seen = claim[t]; t = 0 }
  :: atomic { saw != 0 -> d_step {
       t = saw - 1;
       if
       :: state[t] == OWNED && claim[t] == seen && due[t] ||
          MUTANT == stale && state[t] == OWNED ->
          if
          :: tries[t] < TRIES || MUTANT == forever -> seen = claim[t]; reclaim(t)
          :: tries[t] >= TRIES && MUTANT == left_alone -> skip
          :: else -> assert(due[t]); finish(t, EXHAUSTED); late[t] = true;
             if :: MUTANT == unsettled -> over[t] = 0 :: else fi
          fi
       :: else
       fi; saw = 0; seen = 0 } commit!0 }
  :: atomic { CHOOSE(IS_OVERDUE); d_step { finish(t, EXPIRED) } commit!0 }
  :: atomic { CHOOSE(MAY_LEAVE); d_step { erase(t) } commit!0 } /* pruned */
  :: QUIET -> break
  od
}

/* --- everybody else -------------------------------------------------------------------------- */

#define MAY_ABORT(t) (budget > 0 && (UNFINISHED(t) || MUTANT == again && ENDED(t)))
#define MAY_DELETE(t) (budget > 0 && state[t] != GONE \
  && (state[t] != OWNED || MUTANT == snatched))
#define MAY_RETRY(t) (budget > 0 && ENDED(t))
#define MAY_CHANGE(t) (budget > 0 && (state[t] == SCHEDULED || state[t] == READY))
#define MAY_REPLACE(t) (budget > 0 && state[t] != GONE && state[t] != OWNED)
#define MAY_ANSWER(t) (EXTERNAL(t) && state[t] == READY && !passed[t])

proctype operators() {
  byte how;
  do
  :: atomic { inserted < TASKS -> d_step { insert(inserted); inserted++ } commit!0 }
#if VERBS & ABORT
  :: atomic { CHOOSE(MAY_ABORT); d_step { budget--; finish(t, CANCELLED) } commit!0 }
#endif
#if VERBS & DELETE
  :: atomic { CHOOSE(MAY_DELETE); d_step { budget--; delete(t) } commit!0 }
#endif
#if VERBS & RETRY
  :: atomic { CHOOSE(MAY_RETRY); d_step { budget--; retry(t) } commit!0 }
#endif
#if VERBS & CHANGE
  :: atomic { CHOOSE(MAY_CHANGE); d_step { budget--;
       if :: state[t] == READY -> move(t, SCHEDULED) :: else -> move(t, READY) fi } commit!0 }
#endif
#if VERBS & ADD
  :: atomic { budget > 0 && MAY_ADD -> d_step { budget--; add_dependency() } commit!0 }
#endif
#if VERBS & REPLACE
  :: atomic { CHOOSE(MAY_REPLACE); d_step { budget--; replace(t) } commit!0 }
#endif
  :: atomic { CHOOSE(MAY_ANSWER);
       if :: how = COMPLETED :: how = RETURNED :: how = SKIPPED fi;
       d_step { finish(t, how); how = 0 } commit!0 }
  :: inserted == TASKS -> quiet = true; break
  od
}

/* A caller of WaitForTask, and the process that tells it of ends behind their commits. */
proctype caller() {
  bool told;
  inserted == TASKS;
  if :: MUTANT != deaf -> topic = true :: else fi;
  do
  :: atomic { ENDED(AWAITED) || MUTANT == hasty && told ->
       assert(ENDED(AWAITED)); break }
  :: !ENDED(AWAITED) ->
     topic = true;
     atomic { woken -> woken = false; told = true }
  od
}

proctype notifier() {
  do
  :: atomic { news -> news = false; woken = woken || topic }
  :: QUIET && !news -> break
  od
}

init {
  atomic {
    run store(); run operators(); run clock();
    for (u : 1 .. WORKERS) { run worker(u - 1) }
    for (u : 1 .. MAINTAINERS) { run maintainer() }
    u = 0;
    if :: CALLERS -> run caller(); run notifier() :: else fi
  }
}

#ifdef LIVE
ltl every_task_ends { <> (inserted == TASKS && OVER(0) && OVER(1)) }
#endif

/* Moves of the table that are not here:
 *
 * not modelled: completed -> aborted (replaced): only its row goes, its end stays as it was told
 * not modelled: skipped -> aborted (replaced): the same
 * not modelled: aborted -> aborted (replaced): the same
 */
