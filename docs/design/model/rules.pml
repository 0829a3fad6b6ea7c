/* What holds between steps. */

inline check_edges(x) {
  look_back(x);
  if
  :: state[x] == BLOCKED ->
     assert(w & SOME_MISSING);
     assert(!(w & SOME_UNMET) || WAITS_FOR_ANY(x));
     assert(!(w & SOME_MET) || !WAITS_FOR_ANY(x))
  :: state[x] != BLOCKED && UNFINISHED(x) && !WAITS_FOR_ANY(x) ->
     assert(!(w & (SOME_MISSING | SOME_UNMET))) /* not started before its predecessors ended */
  :: else
  fi;
  w = 0; c = 0; u = 0;
  do
  :: u < x && UNFINISHED(x) ->
     if
     :: EDGE(u, x) != 0 ->
        assert(SAID(u, x) == 0 -> UNFINISHED(u) :
          state[u] == SAID(u, x) || state[u] == GONE); /* no wait for what has ended */
        assert(state[u] != GONE || (VERBS & DELETE)); /* only a deletion takes its results away */
        if
        :: SAID(u, x) == 0 -> w++
        :: else -> if :: ABORTED(SAID(u, x)) -> c++ :: else fi
        fi
     :: else
     fi;
     u++
  :: else -> break
  od;
  assert(state[x] != BLOCKED || missing[x] == w);
  assert(state[x] != BLOCKED || tries[x] != 0 || failed[x] == c);
  w = 0; c = 0; u = 0
}

inline check() {
  d = 0; e = 0;
  do
  :: d < TASKS ->
     check_edges(d);
     assert(tries[d] <= TRIES);
     p = 1; /* no two have the token of the last fetch */
     do
     :: p < WORKERS ->
        assert(known[d] == 0 || known[d] != claim[d] || known[p * TASKS + d] != claim[d]);
        p++
     :: else -> break
     od;
     d++
  :: else -> break
  od;
  d = 0;
  do
  :: d < TASKS -> if :: ORDERED && owner[d] != 0 && UNFINISHED(d) -> e++ :: else fi; d++
  :: else -> break
  od;
  assert(e <= 1); /* that have begun, of one key */
  p = 0; d = 0; e = 0
}
