// The point of no return of a training step, and of the repair after a loss, with losses at any
// moment. check_commit.py runs it.
//
// Rows of the protocol, referred to below:
//   (1) A worker computes its lanes from state k and sends each lane's sum to each owner.
//   (2) An owner adds each lane once, and is complete when it has all.
//   (3) Complete first owners send parts of norm and loss to all. A worker whose chunks are complete
//       and who has all parts gives 1 to the step's agreement; one who has noticed a loss or a revoked
//       epoch revokes and gives 0. Nobody leaves an attempt but through its agreement.
//   (4) Committed <=> AND of the flags is 1 and nobody is missing. Only then owners update, in place,
//       and first owners send the new parameters to the holders. Whoever has all goes on to k + 1.
//   (5) Not committed: the survivors open an epoch. They agree on members and report to each other
//       what they own and hold. Who has all reports derives owners from them: an owner so far may be
//       none from then on. Who will lack state or parameters gets them from somebody who has them.
//       They lie beside what it has; nobody touches that.
//   (6) Who has all that it needs gives 1 to the repair's agreement; who has noticed a loss gives 0.
//       Yes: all adopt the new assignment, let go of the old one and go on with (1). No: all keep
//       what they had, and do (5) again. A chunk without owner: all forget what they had, agree on
//       that as well, and end, asking for a state file.
//
// Sizes, set by -D: W workers, C chunks, L lanes, R owners a chunk, F losses, STEPS.
// KEEP: sums of an aborted attempt are kept, only missing lanes are computed again. Otherwise all are
//       dropped.
// STRICT: a worker notices a loss only by waiting for a message that did not come. Otherwise a message
//       of a dead worker may also be lost after it was sent, and sends fail. STRICT has the fewest ways
//       out of a wait (deadlocks), the other the most outcomes.
// BATCH: all sends of a phase are one move. Without STRICT that loses no outcome: a receiver to whom
//       a message of a dead sender was not sent does what one does whose message is lost.
// STAY: owners who live stay owners. Otherwise the new ones are any, as many as there have to be: what
//       they follow from, shapes and bytes, is not in the model.
// The other names are mutations; each is explained where it acts.

#ifndef W
#define W 3
#endif
#ifndef C
#define C 2
#endif
#ifndef L
#define L W
#endif
#ifndef R
#define R 2
#endif
#ifndef F
#define F 1
#endif
#ifndef STEPS
#define STEPS 2
#endif

#define BIT(i) (1 << (i))
#define HAS(mask, i) (((mask) >> (i)) & 1)
#define ALL(n) (BIT(n) - 1)
#define LOWEST(m) (HAS(m, 0) -> 0 : (HAS(m, 1) -> 1 : (HAS(m, 2) -> 2 : 3)))
#define HIGHEST(m) (HAS(m, 3) -> 3 : (HAS(m, 2) -> 2 : (HAS(m, 1) -> 1 : 0)))
#define COUNT(m) (HAS(m, 0) + HAS(m, 1) + HAS(m, 2) + HAS(m, 3))
#if C == 2
#define OR_CHUNKS(f, w, x) (f(w, x, 0) | f(w, x, 1))
#else
#define OR_CHUNKS(f, w, x) (f(w, x, 0) | f(w, x, 1) | f(w, x, 2))
#endif
#if L == 2
#define OR_LANES(f, w) (f(w, 0) | f(w, 1))
#elif L == 3
#define OR_LANES(f, w) (f(w, 0) | f(w, 1) | f(w, 2))
#else
#define OR_LANES(f, w) (f(w, 0) | f(w, 1) | f(w, 2) | f(w, 3))
#endif

// --- What a worker knows. A mask is a set of workers, chunks or lanes. -------------------------------

// Where it is. Sending: SHARE_ and COMPUTE. Waiting: the others.
#define DEAD 0
#define OPENING 1           // (5) waits for the epoch's members
#define SHARE_REPORTS 2     // (5)
#define AWAIT_REPORTS 3     // (5)
#define SHARE_STATE 4       // (5) as source
#define AWAIT_STATE 5       // (5) as target
#define AGREE_REPAIR 6      // (6) has given its flag, waits for the end
#define COMPUTE 7           // (1)
#define COLLECT 8           // (2)
#define SHARE_PARTS 9       // (3)
#define AWAIT_PARTS 10      // (3)
#define AGREE 11            // (3) has given its flag, waits for the end
#define SHARE_PARAMETERS 12 // (4) as first owner
#define AWAIT_PARAMETERS 13 // (4) as holder
#define DONE 14
#define NEEDS_FILE 15
byte at[W] = COMPUTE;
byte next_send[W];  // within a sending phase
byte steps_done[W]; // steps it knows to be committed

#define TORN 9           // a receive into these parameters was broken off, or they were forgotten
byte parameters[W * C];  // at which step its copy of a chunk is
byte whole[W];           // chunks of which it holds all an owner needs
byte owners[W * C];      // its own idea of the map: owners of each chunk
byte next_owners[W * C]; // in the assignment that a repair builds; 0: none is being built
byte sums[W * C];        // lanes that it has added, by chunk
#define PARAMETERS(w, c) parameters[(w) * C + (c)]
#define OWNERS(w, c) owners[(w) * C + (c)]
#define NEXT_OWNERS(w, c) next_owners[(w) * C + (c)]
#define SUMS(w, c) sums[(w) * C + (c)]

// What reality makes of its sums, whatever it believes: lanes added twice, lanes from a mixed state.
byte twice[W];
byte mixed[W];

// --- Messages that have been sent to a worker and not been taken by it -------------------------------

byte lane_mail[W];       // lanes
byte lane_mail_mixed[W];
byte part_mail[W];       // chunks
byte parameter_mail[W];  // chunks
byte report_mail[W];     // workers
byte state_mail[W];      // chunks; taken when the repair is adopted, until then they lie beside

// --- The world --------------------------------------------------------------------------------------

byte alive = ALL(W);
byte losses = F;
byte members = ALL(W);
bool revoked;

// The agreement that is being gathered, and the last one's end. The next cannot end before all have
// read the last, so there is never more than one of each.
byte gave;     // who has given
byte gave_yes; // and flag 1
byte unread;   // who has not yet read the end
bool committed_flag;
bool each_its_own; // NOT_UNIFORM, REPAIR_NOT_UNIFORM

// What the members' reports say: who owns each chunk, with its whole state; who has its parameters;
// which lanes the owner who sends it has added; which lanes some owner lacks. And from which worker
// on its new owners are taken, which stands for all else that they follow from.
byte sources[C];
byte holders[C];
byte kept[C];
byte lanes_missing = ALL(L);
byte first_taken[C];
byte confirmed[C]; // CONFIRMED_OWNERS: the map at the last commit

byte agreed[C];    // owners in the last assignment that was agreed on, while they count
byte adopters;     // ADOPT_EARLY: have adopted the repair's assignment

byte committed; // steps past their point of no return

// --- What must hold ---------------------------------------------------------------------------------

hidden byte c2_each_lane_exactly_once;
hidden byte c3_committed_state_survives;
hidden byte c3_no_copy_is_overlooked;
hidden byte c3_agreed_owners_have_it;
hidden byte one_answer_about_commit;
hidden byte same_agreements_in_order;
hidden byte one_map;
hidden byte no_file_needed; // with NEVER_FILE
hidden byte commit_has_owners;
hidden byte repair_loses_no_chunk;
hidden byte attempt_fails_only_by_loss;
hidden byte members_only_shrink;
hidden byte one_message_a_slot;
hidden byte nothing_kept; // with NEVER_KEPT
hidden byte nobody_lets_go; // with NEVER_MOVED
hidden byte all_survivors_finish;
#define CHECK(name, condition) name = (condition); assert(name)

hidden byte i_, j_, m_, n_; // inside one d_step only

// --- Pure functions of what all members know --------------------------------------------------------

#define MEMBER(i) HAS(members, (i) % W)
#define COMPUTES(l) \
    (MEMBER(l) -> (l) % W : \
     (MEMBER((l) + 1) -> ((l) + 1) % W : (MEMBER((l) + 2) -> ((l) + 2) % W : ((l) + 3) % W)))
#define FIRST_OWNER(w, c) LOWEST(OWNERS(w, c))
#define OWNS(w, c) HAS(OWNERS(w, c), w)

// Owners of a chunk: these, filled up to R in a fixed order, beginning with worker `first`.
inline derive_owners(result, these, first, candidates) {
    m_ = these;
    i_ = 0;
    do
    :: i_ < W && COUNT(m_) < R ->
        j_ = (first + i_) % W;
        m_ = m_ | (BIT(j_) & (candidates));
        i_++
    :: else -> break
    od;
    result = m_
}

// --- Who sends what to whom, as worker w sees it ----------------------------------------------------

// Chunks whose state or parameters d lacks for the new assignment, and those that w has to send: state
// as the lowest owner, parameters as the highest holder.
#define LACKS_STATE(w, d, c) (HAS(NEXT_OWNERS(w, c), d) && !HAS(sources[c], d))
#define NEEDS_(w, d, c) (LACKS_STATE(w, d, c) || !HAS(holders[c], d) -> BIT(c) : 0)
#define NEEDS(d) OR_CHUNKS(NEEDS_, d, d)
#define SOURCE(w, d, c) (LACKS_STATE(w, d, c) -> LOWEST(sources[c]) : HIGHEST(holders[c]))
#define SENDS_STATE_(w, d, c) (SOURCE(w, d, c) == (w) -> NEEDS_(w, d, c) : 0)
#define SENDS_STATE(w, d) (MEMBER(d) && (d) != (w) -> OR_CHUNKS(SENDS_STATE_, w, d) : 0)
#define NO_OWNER_(w, x, c) (sources[c] == 0)
#define NO_OWNER OR_CHUNKS(NO_OWNER_, 0, 0)

#define OWNS_ANY_(w, d, c) HAS(OWNERS(w, c), d)
#define SENDS_LANE(w, l, d) (HAS(lanes_missing, l) && COMPUTES(l) == (w) && OR_CHUNKS(OWNS_ANY_, w, d))

#define FIRSTS_(w, x, c) (FIRST_OWNER(w, c) == (w) -> BIT(c) : 0)
#define FIRSTS(w) OR_CHUNKS(FIRSTS_, w, 0)
#define SENDS_PARTS(w, d) (MEMBER(d) && (d) != (w) -> FIRSTS(w) : 0)

#define SENDS_PARAMETERS_(w, d, c) (FIRST_OWNER(w, c) == (w) && !HAS(OWNERS(w, c), d) -> BIT(c) : 0)
#define SENDS_PARAMETERS(w, d) (MEMBER(d) && (d) != (w) -> OR_CHUNKS(SENDS_PARAMETERS_, w, d) : 0)
#define HELD_(w, x, c) (OWNS(w, c) -> 0 : BIT(c))
#define HELD(w) OR_CHUNKS(HELD_, w, 0) // and not owned

// Lanes that come to w in this attempt (an owner may have some of them), and those that some of its
// chunks still lacks, counting `mail`.
#define EXPECTED(w) (OR_CHUNKS(OWNS_ANY_, w, w) -> lanes_missing : 0)
#define LACKING_(w, mail, c) (OWNS(w, c) -> ALL(L) & ~(SUMS(w, c) | (mail)) : 0)
#define LACKING(w, mail) OR_CHUNKS(LACKING_, w, mail)

#define MIXED_(w, x, c) (PARAMETERS(w, c) != steps_done[w])
#define MIXED(w) OR_CHUNKS(MIXED_, w, 0)

// A message to somebody who is dead or has given up is of no effect.
#ifdef STALE_MAIL // it waits in the mail for the next epoch, whose messages look the same
#define LISTENS(d) HAS(alive, d)
#elif defined(REPAIR_INCOMPLETE) // and what comes after flag 1 is too late
#define LISTENS(d) (HAS(alive, d) && !((at[d] == AGREE || at[d] == AGREE_REPAIR) && HAS(gave, d)))
#else
#define LISTENS(d) \
    (HAS(alive, d) && !((at[d] == AGREE || at[d] == AGREE_REPAIR) && HAS(gave & ~gave_yes, d)))
#endif

// --- When a worker can move on, and when it may give up ---------------------------------------------

#define SENDS(w) (at[w] == SHARE_REPORTS || at[w] == SHARE_STATE || at[w] == COMPUTE || \
    at[w] == SHARE_PARTS || at[w] == SHARE_PARAMETERS)
#define IN_REPAIR(w) (at[w] >= SHARE_REPORTS && at[w] <= AGREE_REPAIR)
#define AWAITED_REPORTS(w) (members & ~BIT(w) & ~report_mail[w])
#define REPORTED(w) (at[w] == AWAIT_REPORTS && AWAITED_REPORTS(w) == 0)
#ifdef REPAIR_INCOMPLETE // flag 1 without looking at what has come
#define REPAIRED(w) (at[w] == AWAIT_STATE)
#else
#define REPAIRED(w) (at[w] == AWAIT_STATE && (NEEDS(w) & ~state_mail[w]) == 0)
#endif
#define COMPLETE(w) \
    (at[w] == COLLECT && (EXPECTED(w) & ~lane_mail[w]) == 0 && !LACKING(w, lane_mail[w]))
#define HAS_PARTS(w) (at[w] == AWAIT_PARTS && part_mail[w] == ALL(C))
#define HAS_PARAMETERS(w) (at[w] == AWAIT_PARAMETERS && (HELD(w) & ~parameter_mail[w]) == 0)
#define READS(w) (HAS(unread, w) && \
    (at[w] == OPENING || (at[w] == AGREE || at[w] == AGREE_REPAIR) && !each_its_own))
#ifdef BATCH
#define BATCHES 1
#else
#define BATCHES 0
#endif

#define LIVING (alive & members)
#define LOST (members & ~alive)
#ifdef STRICT
#define STILL(there, i) (!HAS(there, i)) // awaits i
#define FROM_REPORTS(w) AWAITED_REPORTS(w)
#define MAY_FAIL_SENDING 0
#else
#define STILL(there, i) 1
#define FROM_REPORTS(w) (members & ~BIT(w))
#define MAY_FAIL_SENDING (revoked || LOST)
#endif
#define FROM_SOURCE_(w, x, c) (NEEDS_(w, w, c) && STILL(state_mail[w], c) -> BIT(SOURCE(w, w, c)) : 0)
#define FROM_LANE_(w, l) \
    (HAS(EXPECTED(w), l) && STILL(lane_mail[w], l) -> BIT(COMPUTES(l)) : 0)
#define FROM_PARTS_(w, x, c) (STILL(part_mail[w], c) -> BIT(FIRST_OWNER(w, c)) : 0)
#define FROM_FIRST_(w, x, c) (!OWNS(w, c) && STILL(parameter_mail[w], c) -> BIT(FIRST_OWNER(w, c)) : 0)
#define MAY_GIVE_UP(w) ( \
    SENDS(w) && MAY_FAIL_SENDING || \
    at[w] == AWAIT_REPORTS && (revoked || (LOST & FROM_REPORTS(w))) || \
    at[w] == AWAIT_STATE && (revoked || (LOST & OR_CHUNKS(FROM_SOURCE_, w, 0))) || \
    at[w] == COLLECT && (revoked || (LOST & OR_LANES(FROM_LANE_, w))) || \
    at[w] == AWAIT_PARTS && (revoked || (LOST & OR_CHUNKS(FROM_PARTS_, w, 0))) || \
    at[w] == AWAIT_PARAMETERS && (revoked || (LOST & OR_CHUNKS(FROM_FIRST_, w, 0))))

// --- Moves. Each inline is (part of) one indivisible move of worker w. A loop at the end of a d_step
// would leave it, so a skip follows.

// Passes over sends that are not due and phases in which w has nothing to do.
inline settle(w) {
    do
    :: at[w] == SHARE_REPORTS && next_send[w] < W && (next_send[w] == w || !MEMBER(next_send[w])) ->
        next_send[w]++
    :: at[w] == SHARE_REPORTS && next_send[w] == W -> next_send[w] = 0; at[w] = AWAIT_REPORTS
    :: at[w] == SHARE_STATE && next_send[w] < W && !SENDS_STATE(w, next_send[w]) -> next_send[w]++
    :: at[w] == SHARE_STATE && next_send[w] == W -> next_send[w] = 0; at[w] = AWAIT_STATE
    :: at[w] == COMPUTE && next_send[w] < L * W && !SENDS_LANE(w, next_send[w] / W, next_send[w] % W) ->
        next_send[w]++
    :: at[w] == COMPUTE && next_send[w] == L * W -> next_send[w] = 0; at[w] = COLLECT
    :: at[w] == COLLECT && !EXPECTED(w) -> at[w] = SHARE_PARTS
    :: at[w] == SHARE_PARTS && next_send[w] < W && !SENDS_PARTS(w, next_send[w]) -> next_send[w]++
    :: at[w] == SHARE_PARTS && next_send[w] == W ->
        next_send[w] = 0;
        part_mail[w] = part_mail[w] | FIRSTS(w);
        at[w] = AWAIT_PARTS
    :: at[w] == SHARE_PARAMETERS && next_send[w] < W && !SENDS_PARAMETERS(w, next_send[w]) -> next_send[w]++
    :: at[w] == SHARE_PARAMETERS && next_send[w] == W -> next_send[w] = 0; at[w] = AWAIT_PARAMETERS
#ifdef HOLDER_MIXES // starts step k + 1 while some chunks are at k
    :: at[w] == AWAIT_PARAMETERS -> at[w] = COMPUTE
#else
    :: at[w] == AWAIT_PARAMETERS && !HELD(w) -> at[w] = COMPUTE
#endif
    :: else -> break
    od;
    skip
}

// One message (or all messages to one worker, where nobody could tell the difference).
inline send(w) {
    n_ = next_send[w];
    if
    :: at[w] == SHARE_REPORTS && LISTENS(n_) ->
        CHECK(one_message_a_slot, !HAS(report_mail[n_], w));
        report_mail[n_] = report_mail[n_] | BIT(w)
    :: at[w] == SHARE_STATE && LISTENS(n_) ->
        CHECK(one_message_a_slot, (state_mail[n_] & SENDS_STATE(w, n_)) == 0);
        state_mail[n_] = state_mail[n_] | SENDS_STATE(w, n_);
        j_ = 0;
        do
        :: j_ < C ->
            CHECK(c3_committed_state_survives, !HAS(SENDS_STATE(w, n_), j_) ||
                PARAMETERS(w, j_) == steps_done[w] && (HAS(whole[w], j_) || !LACKS_STATE(w, n_, j_)));
            j_++
        :: else -> break
        od
    :: at[w] == COMPUTE && LISTENS(n_ % W) ->
        CHECK(one_message_a_slot, !HAS(lane_mail[n_ % W], n_ / W));
        lane_mail[n_ % W] = lane_mail[n_ % W] | BIT(n_ / W);
        lane_mail_mixed[n_ % W] = lane_mail_mixed[n_ % W] | (MIXED(w) -> BIT(n_ / W) : 0)
    :: at[w] == SHARE_PARTS && LISTENS(n_) ->
        CHECK(one_message_a_slot, (part_mail[n_] & SENDS_PARTS(w, n_)) == 0);
        part_mail[n_] = part_mail[n_] | SENDS_PARTS(w, n_)
    :: at[w] == SHARE_PARAMETERS && LISTENS(n_) ->
        CHECK(one_message_a_slot, (parameter_mail[n_] & SENDS_PARAMETERS(w, n_)) == 0);
        parameter_mail[n_] = parameter_mail[n_] | SENDS_PARAMETERS(w, n_)
    :: else
    fi;
    next_send[w]++
}

// (2) Adds these lanes to all own chunks, each lane once.
inline take_lanes(w, lanes) {
    j_ = 0;
    do
    :: j_ < C && OWNS(w, j_) ->
#ifdef ADD_TWICE // the bookkeeping is not asked
        twice[w] = twice[w] | (lanes & SUMS(w, j_));
#endif
        mixed[w] = mixed[w] | (lanes & lane_mail_mixed[w] & ~SUMS(w, j_));
        SUMS(w, j_) = SUMS(w, j_) | lanes;
        j_++
    :: j_ < C && !OWNS(w, j_) -> j_++
    :: else -> break
    od;
    lane_mail[w] = 0;
    lane_mail_mixed[w] = 0
}

// (6) What has come and what was here become what the worker goes on with.
inline adopt(w) {
    j_ = 0;
    do
    :: j_ < C ->
        PARAMETERS(w, j_) = (HAS(state_mail[w], j_) -> steps_done[w] : PARAMETERS(w, j_));
        OWNERS(w, j_) = NEXT_OWNERS(w, j_);
        NEXT_OWNERS(w, j_) = 0;
        if
        :: OWNS(w, j_) ->
            CHECK(c3_committed_state_survives,
                HAS(whole[w] | state_mail[w], j_) && PARAMETERS(w, j_) == steps_done[w]);
            SUMS(w, j_) = (HAS(whole[w], j_) -> SUMS(w, j_) : kept[j_]);
            whole[w] = whole[w] | BIT(j_)
        :: else -> // lets go of it
#ifdef NEVER_MOVED
            CHECK(nobody_lets_go, !HAS(whole[w], j_));
#endif
            SUMS(w, j_) = 0;
            whole[w] = whole[w] & ~BIT(j_)
        fi;
        j_++
    :: else -> break
    od;
    state_mail[w] = 0
}

// (4) As holder.
inline take_parameters(w) {
    j_ = 0;
    do
    :: j_ < C -> PARAMETERS(w, j_) = (OWNS(w, j_) -> PARAMETERS(w, j_) : steps_done[w]); j_++
    :: else -> break
    od;
    parameter_mail[w] = 0
}

inline give(w, agreement_place, flag) {
    gave = gave | BIT(w);
    gave_yes = gave_yes | (flag << w);
    at[w] = agreement_place;
    next_send[w] = 0;
    part_mail[w] = 0
}

// (4) In place: after this, state k of these chunks is gone from w.
inline update(w) {
    j_ = 0;
    do
    :: j_ < C && OWNS(w, j_) ->
        CHECK(c2_each_lane_exactly_once,
            SUMS(w, j_) == ALL(L) && !twice[w] && !mixed[w] && HAS(whole[w], j_) &&
            PARAMETERS(w, j_) == steps_done[w]);
        PARAMETERS(w, j_) = PARAMETERS(w, j_) + 1;
        SUMS(w, j_) = 0;
        j_++
    :: j_ < C && !OWNS(w, j_) -> j_++
    :: else -> break
    od;
    twice[w] = 0;
    mixed[w] = 0
}

inline pass_point_of_no_return(w) {
#ifndef UPDATE_EARLY
    update(w);
#endif
    steps_done[w]++;
    at[w] = (steps_done[w] == STEPS -> DONE : SHARE_PARAMETERS)
}

// (3) Flag 1.
inline vote(w) {
#ifdef UPDATE_EARLY // before the agreement
    update(w);
#endif
#ifdef LOCAL_COMMIT // without the agreement: "I have all, so all have all"
    part_mail[w] = 0;
    committed = (committed > steps_done[w] -> committed : steps_done[w] + 1);
    pass_point_of_no_return(w)
#else
    give(w, AGREE, 1)
#endif
}

// (6) Flag 1.
inline vote_on_repair(w) {
#ifdef ADOPT_EARLY // without the agreement: "I have all, so all have all"
    adopt(w);
    at[w] = COMPUTE;
    adopters = adopters | BIT(w);
    if
    :: (LIVING & ~adopters) == 0 -> // so all do have all, and the old owners need not last longer
        j_ = 0;
        do
        :: j_ < C -> agreed[j_] = OWNERS(w, j_); j_++
        :: else -> break
        od
    :: else
    fi
#else
#ifdef LET_GO_EARLY // before the agreement
    adopt(w);
#endif
    give(w, AGREE_REPAIR, 1)
#endif
}

inline tell_what_it_holds(w) {
    gave = gave | BIT(w);
    at[w] = OPENING
}

inline forget_sums(w) {
    j_ = 0;
    do
    :: j_ < C -> SUMS(w, j_) = 0; j_++
    :: else -> break
    od;
    twice[w] = 0;
    mixed[w] = 0
}

inline read_agreement(w, yes) {
    unread = unread & ~BIT(w);
    CHECK(one_answer_about_commit, !(yes) || committed == steps_done[w] + 1);
    if
    :: yes -> pass_point_of_no_return(w)
    :: else ->
#ifndef KEEP
        forget_sums(w);
#endif
        tell_what_it_holds(w)
    fi
}

inline read_opening(w) {
    unread = unread & ~BIT(w);
    at[w] = SHARE_REPORTS
}

// (5) Every survivor derives the map for itself; here it is compared with those of the others.
inline decide(w, reporters) {
    n_ = 0;
    do
    :: n_ < C && NO_OWNER -> // of some chunk: back to a state file
        CHECK(c3_no_copy_is_overlooked, sources[n_] || (agreed[n_] & LIVING) == 0);
#ifdef NEVER_FILE
        CHECK(no_file_needed, sources[n_]);
#endif
        n_++
    :: n_ < C && !NO_OWNER ->
#ifdef STAY
        derive_owners(NEXT_OWNERS(w, n_), sources[n_] & (reporters), first_taken[n_], reporters);
#else
        derive_owners(NEXT_OWNERS(w, n_), 0, first_taken[n_], reporters);
#endif
        i_ = 0;
        do
        :: i_ < W ->
            CHECK(one_map, !IN_REPAIR(i_) || NEXT_OWNERS(i_, n_) == 0 ||
                NEXT_OWNERS(i_, n_) == NEXT_OWNERS(w, n_));
            i_++
        :: else -> break
        od;
        n_++
    :: else -> break
    od;
    report_mail[w] = 0;
    at[w] = SHARE_STATE;
    if
    :: NO_OWNER ->
        forget_state(w);
        j_ = 0;
        do
        :: j_ < C -> agreed[j_] = 0; j_++
        :: else -> break
        od;
        give(w, AGREE_REPAIR, 1)
    :: else
    fi
}

// (6) Here a loss may come between any two of those who read.
inline read_repair(w, yes) {
    unread = unread & ~BIT(w);
    if
    :: yes && NO_OWNER -> at[w] = NEEDS_FILE
    :: yes && !NO_OWNER ->
#ifndef LET_GO_EARLY
        adopt(w);
#endif
        at[w] = COMPUTE;
        if
        :: unread == 0 -> forget_survey()
        :: else
        fi
    :: else -> abandon_repair(w); tell_what_it_holds(w)
    fi
}

// Nobody asks any more; so states that differ in it alone become one.
inline forget_survey() {
    j_ = 0;
    do
    :: j_ < C -> sources[j_] = 0; holders[j_] = 0; kept[j_] = 0; first_taken[j_] = 0; j_++
    :: else -> break
    od;
    skip
}

inline abandon_repair(w) {
    report_mail[w] = 0;
    state_mail[w] = 0;
    j_ = 0;
    do
    :: j_ < C -> NEXT_OWNERS(w, j_) = 0; j_++
    :: else -> break
    od;
    skip
}

inline die(w) {
    alive = alive & ~BIT(w);
    losses--;
    unread = unread & ~BIT(w);
    lane_mail[w] = 0;
    lane_mail_mixed[w] = 0;
    part_mail[w] = 0;
    parameter_mail[w] = 0;
    next_send[w] = 0;
    abandon_repair(w);
    forget_state(w);
    steps_done[w] = 0;
    at[w] = DEAD
}

inline forget_state(w) {
    forget_sums(w);
    whole[w] = 0;
    j_ = 0;
    do
    :: j_ < C -> PARAMETERS(w, j_) = TORN; OWNERS(w, j_) = 0; j_++
    :: else -> break
    od;
    skip
}

proctype worker(byte w) {
    byte i, taken, got;
end:
    do
    // Loss, at any point. One who has finished leaves anyway.
    :: d_step { losses && at[w] != DEAD && at[w] != DONE && at[w] != NEEDS_FILE ->
        printf("worker %d dies\n", w);
        die(w) }

    // All that needs no choice, then on to the next send or wait.
    :: d_step { SENDS(w) || REPORTED(w) || REPAIRED(w) || COMPLETE(w) || HAS_PARTS(w) ||
            HAS_PARAMETERS(w) || READS(w) ->
        do
        :: got == 0 || BATCHES && at[w] == got && SENDS(w) ->
            got = at[w];
            printf("worker %d at %d, send %d\n", w, at[w], next_send[w]);
            if
            :: SENDS(w) -> send(w)
            :: REPORTED(w) -> decide(w, members)
            :: REPAIRED(w) -> vote_on_repair(w)
            :: COMPLETE(w) -> take_lanes(w, lane_mail[w]); at[w] = SHARE_PARTS
            :: HAS_PARTS(w) -> vote(w)
            :: HAS_PARAMETERS(w) -> take_parameters(w); at[w] = COMPUTE
            :: READS(w) && at[w] == AGREE -> read_agreement(w, committed_flag)
            :: READS(w) && at[w] == OPENING -> read_opening(w)
            :: READS(w) && at[w] == AGREE_REPAIR -> read_repair(w, committed_flag)
            fi;
            settle(w)
        :: else -> break
        od;
        got = 0 }

#ifdef VOTE_INCOMPLETE // all parts have come, so all first owners are complete; it is a second one
    :: d_step { at[w] == COLLECT && part_mail[w] == ALL(C) -> give(w, AGREE, 1) }
#endif

#ifdef LOCAL_SURVEY // who does not answer is taken to have nothing
    :: d_step { at[w] == AWAIT_REPORTS && MAY_GIVE_UP(w) ->
        decide(w, report_mail[w] | BIT(w));
        settle(w) }
#endif

    // (3), (6) Flag 0. Of the messages that had not been taken, any may have come.
    :: atomic { MAY_GIVE_UP(w) ->
        printf("worker %d at %d gives up\n", w, at[w]);
#ifdef KEEP
        i = 0;
        do
        :: i < L && HAS(lane_mail[w], i) -> taken = taken | BIT(i); i++
        :: i < L -> i++
        :: else -> break
        od;
#endif
        skip;
        d_step {
            i = 0;
            do
            :: i < C -> // a receive that was broken off leaves nothing that could be used
                if
                :: (at[w] == SHARE_PARAMETERS || at[w] == AWAIT_PARAMETERS) && HAS(HELD(w), i) ->
                    PARAMETERS(w, i) = TORN
                :: else
                fi;
                i++
            :: else -> break
            od;
#ifdef KEEP
            take_lanes(w, taken);
#else
            forget_sums(w);
#ifndef STALE_MAIL
            lane_mail[w] = 0;
            lane_mail_mixed[w] = 0;
#endif
#endif
            parameter_mail[w] = 0;
            abandon_repair(w);
            i = 0;
            taken = 0;
#ifndef NO_REVOKE // others may wait for w itself
            revoked = 1;
#endif
#ifdef SILENT_GIVE_UP // straight to the opening, past the step's agreement
            part_mail[w] = 0;
            next_send[w] = 0;
            tell_what_it_holds(w)
#elif defined(ADOPT_EARLY) // there is no other
            give(w, AGREE, 0)
#else
            give(w, (IN_REPAIR(w) -> AGREE_REPAIR : AGREE), 0)
#endif
        } }

#ifdef LATE_STAYS // has waited too long for an agreement that has ended, and opens the next epoch
    :: d_step { losses && HAS(unread, w) && (at[w] == AGREE || at[w] == AGREE_REPAIR) ->
        losses--;
        revoked = 1;
        forget_sums(w);
        abandon_repair(w);
        unread = unread & ~BIT(w);
        tell_what_it_holds(w) }
#endif

#if defined(NOT_UNIFORM) || defined(REPAIR_NOT_UNIFORM)
    :: atomic { HAS(unread, w) && each_its_own && (at[w] == AGREE || at[w] == AGREE_REPAIR) ->
        if
        :: got = 0
        :: got = 1
        fi;
        d_step {
            if
            :: at[w] == AGREE ->
                committed = (got -> steps_done[w] + 1 : committed);
                read_agreement(w, got)
            :: at[w] == AGREE_REPAIR -> read_repair(w, got)
            fi;
            got = 0;
            settle(w) } }
#endif
    od
}

// --- The agreement: MPIX_Comm_agree, which is uniform -----------------------------------------------

// Ends when all living members have given. Revoking does not disturb it.
inline end_of_step_agreement(lost) {
    i_ = LOWEST(LIVING);
#ifdef IGNORE_CODE // the AND alone, which omits the dead
    committed_flag = (gave_yes & LIVING) == LIVING;
#else
    committed_flag = !lost && (gave_yes & gave) == gave;
#endif
    CHECK(attempt_fails_only_by_loss, committed_flag || LOST);
    if
    :: committed_flag ->
        j_ = 0;
        do
        :: j_ < C ->
#ifndef ALLOW_ORPHANS
            CHECK(commit_has_owners, gave & OWNERS(i_, j_));
#endif
#ifdef CONFIRMED_OWNERS
            confirmed[j_] = OWNERS(i_, j_);
#endif
            j_++
        :: else -> break
        od;
        lanes_missing = ALL(L);
        committed = steps_done[i_] + 1
    :: else -> CHECK(one_answer_about_commit, committed == steps_done[i_])
    fi
}

// (6)
inline end_of_repair_agreement(lost) {
    i_ = LOWEST(LIVING);
#ifdef IGNORE_REPAIR_CODE // the AND alone, which omits the dead
    committed_flag = (gave_yes & LIVING) == LIVING;
#else
    committed_flag = !lost && (gave_yes & gave) == gave;
#endif
    CHECK(attempt_fails_only_by_loss, committed_flag || LOST);
    j_ = 0;
    do
    :: j_ < C && committed_flag && !NO_OWNER ->
#ifdef LET_GO_EARLY
        n_ = OWNERS(i_, j_);
#else
        n_ = NEXT_OWNERS(i_, j_);
#endif
        CHECK(repair_loses_no_chunk, (gave & n_) || !(agreed[j_] & LIVING));
        agreed[j_] = n_;
        j_++
    :: else -> break
    od;
    skip
}

// (5) The new members, and what they will report. Whoever of them is dead will not; then nobody gets
// so far as to use it.
inline end_of_opening(new_members) {
    CHECK(members_only_shrink, (new_members & ~members) == 0 && new_members != members);
    members = new_members;
    m_ = ALL(L); // lanes that all surviving owners have
    j_ = 0;
    do
    :: j_ < C ->
        sources[j_] = 0;
        holders[j_] = 0;
        i_ = 0;
        do
        :: i_ < W && HAS(LIVING, i_) ->
            if
            :: HAS(whole[i_], j_) ->
                CHECK(c3_committed_state_survives, PARAMETERS(i_, j_) == committed);
                sources[j_] = sources[j_] | BIT(i_);
                m_ = m_ & SUMS(i_, j_)
            :: else
            fi;
#ifndef HOLDERS_NOT_REPAIRED // only new owners are
            if
            :: PARAMETERS(i_, j_) == committed -> holders[j_] = holders[j_] | BIT(i_)
            :: else
            fi;
#endif
            i_++
        :: i_ < W && !HAS(LIVING, i_) -> i_++
        :: else -> break
        od;
        CHECK(c3_agreed_owners_have_it, (agreed[j_] & LIVING & ~sources[j_]) == 0);
        n_ = sources[j_];
#ifdef MAP_ONLY // no survey: members who were owners in the last map are taken to have the state
        sources[j_] = OWNERS(LOWEST(LIVING), j_) & members;
#endif
#ifdef CONFIRMED_OWNERS // no survey: members who were owners in the map of the last commit
        sources[j_] = confirmed[j_] & members;
#endif
        CHECK(c3_no_copy_is_overlooked, sources[j_] || !n_);
#ifdef HOLDERS_NOT_REPAIRED
        holders[j_] = members;
#endif
        kept[j_] = (sources[j_] -> SUMS(LOWEST(sources[j_]), j_) : 0);
        j_++
    :: else -> break
    od;
    lanes_missing = ALL(L) & ~m_;
#ifdef NEVER_KEPT
    CHECK(nothing_kept, lanes_missing == ALL(L));
#endif
    revoked = 0;
    adopters = 0;
    i_ = 0;
    do
    :: i_ < W ->
#ifndef STALE_MAIL
        lane_mail[i_] = 0;
        lane_mail_mixed[i_] = 0;
        part_mail[i_] = 0;
        parameter_mail[i_] = 0;
        report_mail[i_] = 0;
        state_mail[i_] = 0;
#endif
        i_++
    :: else -> break
    od;
    skip
}

inline all_have_come_to_the_same() {
    i_ = LOWEST(LIVING);
    j_ = 0;
    do
    :: j_ < W ->
        CHECK(same_agreements_in_order,
            !HAS(LIVING, j_) || at[j_] == at[i_] && steps_done[j_] == steps_done[i_]);
        j_++
    :: else -> break
    od;
    skip
}

active proctype agreement() {
    byte i, chosen;
    bool lost;
end:
    do
    :: atomic { LIVING && (gave & LIVING) == LIVING ->
        d_step { all_have_come_to_the_same(); i = LOWEST(LIVING) }
        if
        :: at[i] == AGREE ->
            if // Somebody died before giving; or after it: one of both answers, the same for all.
            :: LOST -> lost = 1
            :: !(LOST & ~gave) -> lost = 0
            fi;
            d_step {
                printf("agreement: lost %d, gave %d, yes %d\n", lost, gave, gave_yes);
                end_of_step_agreement(lost);
                each_its_own = 0;
#ifdef NOT_UNIFORM // as a plain all-reduce: each survivor has its own answer
                each_its_own = LOST && !(LOST & ~gave) && (gave_yes & gave) == gave;
#endif
            }
        :: at[i] == AGREE_REPAIR ->
            if // as above
            :: LOST -> lost = 1
            :: !(LOST & ~gave) -> lost = 0
            fi;
            d_step {
                printf("agreement on repair: lost %d, gave %d, yes %d\n", lost, gave, gave_yes);
                end_of_repair_agreement(lost);
                each_its_own = 0;
#ifdef REPAIR_NOT_UNIFORM
                each_its_own = LOST && !(LOST & ~gave) && (gave_yes & gave) == gave;
#endif
            }
        :: at[i] == OPENING ->
            chosen = LIVING;
            i = 0;
            do // (5) The members: all who live, and whoever gave and died then, or not.
            :: i < W && HAS(gave & ~alive, i) -> chosen = chosen | BIT(i); i++
            :: i < W -> i++
            :: else -> break
            od;
            i = 0;
            do
            :: i < C ->
                if // (5) Any new owners. If all have to be, there is no choice.
#ifdef STAY
                :: first_taken[i] = i * W / C
#else
                :: COUNT(chosen) <= R -> first_taken[i] = 0
                :: COUNT(chosen) > R && HAS(chosen, 0) -> first_taken[i] = 0
                :: COUNT(chosen) > R && HAS(chosen, 1) -> first_taken[i] = 1
                :: COUNT(chosen) > R && HAS(chosen, 2) -> first_taken[i] = 2
                :: COUNT(chosen) > R && HAS(chosen, 3) -> first_taken[i] = 3
#endif
                fi;
                i++
            :: else -> break
            od;
            skip;
            d_step { printf("opening: members %d\n", chosen); end_of_opening(chosen) }
        fi;
        d_step { unread = LIVING; gave = 0; gave_yes = 0; i = 0; chosen = 0; lost = 0 } }

    // Nothing else can move: the end of the run. All survivors have reached the same one.
    :: timeout ->
        d_step {
            i = 0;
            do
            :: i < W ->
                CHECK(all_survivors_finish, !HAS(alive, i) || at[i] == at[LOWEST(alive)] &&
                    (at[i] == DONE && steps_done[i] == STEPS && committed == STEPS || at[i] == NEEDS_FILE));
                i_ = 0;
                do
                :: i_ < C && at[i] == DONE ->
                    CHECK(c3_committed_state_survives, !OWNS(i, i_) || PARAMETERS(i, i_) == STEPS);
                    i_++
                :: else -> break
                od;
                i++
            :: else -> break
            od;
            i = 0
        };
        break
    od
}

init {
    byte w, c;
    atomic {
        do
        :: w < W ->
            c = 0;
            do
            :: c < C ->
                derive_owners(OWNERS(w, c), 0, c * W / C, members);
                agreed[c] = OWNERS(w, c);
                whole[w] = whole[w] | (OWNS(w, c) -> BIT(c) : 0);
                confirmed[c] = OWNERS(w, c);
                c++
            :: else -> break
            od;
            settle(w);
            run worker(w);
            w++
        :: else -> break
        od;
        w = 0;
        c = 0
    }
}
