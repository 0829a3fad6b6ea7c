/* Operators, callers that wait, and the process that wakes these. */

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
