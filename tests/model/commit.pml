// The point of no return of a training step, with losses at any moment. check_commit.py runs it.
//
// Rows of the protocol, referred to below:
//   (1) A worker computes its lanes from state k and sends each lane's sum to each owner.
//   (2) An owner adds each lane once, and is complete when it has all.
//   (3) Complete first owners send parts of norm and loss to all. A worker whose chunks are complete
//       and who has all parts gives 1 to the step's agreement; one who has noticed a loss or a revoked
//       epoch revokes and gives 0. Nobody leaves an attempt but through its agreement.
//   (4) Committed <=> AND of the flags is 1 and nobody is missing. Only then owners update, in place,
//       and first owners send the new parameters to the holders. Whoever has all goes on to k + 1.
//   (5) Not committed: the survivors open an epoch. They agree on members and on who holds what (the
//       survey); each derives lanes and owners from that; whoever lacks state or parameters gets them
//       from a surviving owner; then (1). A chunk without owner: all end and ask for a state file.
//
// Sizes, set by -D: W workers, C chunks, L lanes, R owners a chunk, F losses, STEPS.
// KEEP: sums of an aborted attempt are kept, only missing lanes are computed again. Otherwise all are
//       dropped.
// STRICT: a worker notices a loss only by waiting for a message that did not come. Otherwise a message
//       of a dead worker may also be lost after it was sent, and sends fail. STRICT has the fewest ways
//       out of a wait (deadlocks), the other the most outcomes.
// BATCH: all sends of a phase are one move. Without STRICT that loses no outcome: a receiver to whom
//       a message of a dead sender was not sent does what one does whose message is lost.
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

// Where it is. Sending: SHARE_STATE, COMPUTE, SHARE_PARTS, SHARE_PARAMETERS. Waiting: the others.
#define DEAD 0
#define OPENING 1           // has told what it holds, waits for the epoch's members
#define SHARE_STATE 2       // (5) as source
#define AWAIT_STATE 3       // (5) as target
#define COMPUTE 4           // (1)
#define COLLECT 5           // (2)
#define SHARE_PARTS 6       // (3)
#define AWAIT_PARTS 7       // (3)
#define AGREE 8             // (3) has given its flag, waits for the end
#define SHARE_PARAMETERS 9  // (4) as first owner
#define AWAIT_PARAMETERS 10 // (4) as holder
#define DONE 11
#define NEEDS_FILE 12
byte at[W] = COMPUTE;
byte next_send[W];  // within a sending phase
byte steps_done[W]; // steps it knows to be committed

#define TORN 9           // a receive into these parameters was broken off
byte parameters[W * C];  // at which step its copy of a chunk is
byte whole[W];           // chunks of which it holds all an owner needs
byte owners[W * C];      // its own idea of the map: owners of each chunk
byte sums[W * C];        // lanes that it has added, by chunk
#define PARAMETERS(w, c) parameters[(w) * C + (c)]
#define OWNERS(w, c) owners[(w) * C + (c)]
#define SUMS(w, c) sums[(w) * C + (c)]

// What reality makes of its sums, whatever it believes: lanes added twice, lanes from a mixed state.
byte twice[W];
byte mixed[W];

// --- Messages that have been sent to a worker and not been taken by it -------------------------------

byte lane_mail[W];       // lanes
byte lane_mail_mixed[W];
byte part_mail[W];       // chunks
byte parameter_mail[W];  // chunks
byte state_mail[W];      // chunks

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
bool each_its_own; // NOT_UNIFORM

// What the survey says, for all members of the epoch: who has the state of each chunk, which
// parameters a worker lacks, which lanes some owner lacks.
byte sources[C];
byte lacks[W];
byte lanes_missing = ALL(L);
byte confirmed[C]; // CONFIRMED_OWNERS: the map at the last commit

byte committed; // steps past their point of no return

// --- What must hold ---------------------------------------------------------------------------------

hidden byte c2_each_lane_exactly_once;
hidden byte c3_committed_state_survives;
hidden byte c3_no_copy_is_overlooked;
hidden byte one_answer_about_commit;
hidden byte same_agreements_in_order;
hidden byte one_map;
hidden byte no_file_needed; // with NEVER_FILE
hidden byte commit_has_owners;
hidden byte attempt_fails_only_by_loss;
hidden byte members_only_shrink;
hidden byte one_message_a_slot;
hidden byte nothing_kept; // with NEVER_KEPT
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

// Owners of a chunk: those who have its state, filled up to R in a fixed order.
inline derive_owners(w, c, holders, candidates) {
    m_ = holders;
    i_ = 0;
    do
    :: i_ < W && COUNT(m_) < R ->
        j_ = (c * W / C + i_) % W;
        m_ = m_ | (BIT(j_) & (candidates));
        i_++
    :: else -> break
    od;
    OWNERS(w, c) = m_
}

// --- Who sends what to whom, as worker w sees it ----------------------------------------------------

// Chunks whose state or parameters d needs in the repair, and those of them that w has to send.
#define NEEDS_(w, d, c) \
    ((!HAS(sources[c], d) && (HAS(OWNERS(w, c), d) || HAS(lacks[d], c))) -> BIT(c) : 0)
#define NEEDS(d) OR_CHUNKS(NEEDS_, d, d)
#define SENDS_STATE_(w, d, c) (LOWEST(sources[c]) == (w) -> NEEDS_(w, d, c) : 0)
#define SENDS_STATE(w, d) (MEMBER(d) && (d) != (w) -> OR_CHUNKS(SENDS_STATE_, w, d) : 0)

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
#else
#define LISTENS(d) (HAS(alive, d) && !(at[d] == AGREE && HAS(gave, d) && !HAS(gave_yes, d)))
#endif

// --- When a worker can move on, and when it may give up ---------------------------------------------

#define SENDS(w) \
    (at[w] == SHARE_STATE || at[w] == COMPUTE || at[w] == SHARE_PARTS || at[w] == SHARE_PARAMETERS)
#define REPAIRED(w) (at[w] == AWAIT_STATE && (NEEDS(w) & ~state_mail[w]) == 0)
#define COMPLETE(w) \
    (at[w] == COLLECT && (EXPECTED(w) & ~lane_mail[w]) == 0 && !LACKING(w, lane_mail[w]))
#define HAS_PARTS(w) (at[w] == AWAIT_PARTS && part_mail[w] == ALL(C))
#define HAS_PARAMETERS(w) (at[w] == AWAIT_PARAMETERS && (HELD(w) & ~parameter_mail[w]) == 0)
#define READS(w) (HAS(unread, w) && (at[w] == OPENING || at[w] == AGREE && !each_its_own))
#ifdef BATCH
#define BATCHES 1
#else
#define BATCHES 0
#endif

#define LOST (members & ~alive)
#ifdef STRICT
#define STILL(there, i) (!HAS(there, i)) // awaits i
#define MAY_FAIL_SENDING 0
#else
#define STILL(there, i) 1
#define MAY_FAIL_SENDING (revoked || LOST)
#endif
#define FROM_SOURCE_(w, x, c) (NEEDS_(w, w, c) && STILL(state_mail[w], c) -> BIT(LOWEST(sources[c])) : 0)
#define FROM_LANE_(w, l) \
    (HAS(EXPECTED(w), l) && STILL(lane_mail[w], l) -> BIT(COMPUTES(l)) : 0)
#define FROM_PARTS_(w, x, c) (STILL(part_mail[w], c) -> BIT(FIRST_OWNER(w, c)) : 0)
#define FROM_FIRST_(w, x, c) (!OWNS(w, c) && STILL(parameter_mail[w], c) -> BIT(FIRST_OWNER(w, c)) : 0)
#define MAY_GIVE_UP(w) ( \
    SENDS(w) && MAY_FAIL_SENDING || \
    at[w] == AWAIT_STATE && (revoked || (LOST & OR_CHUNKS(FROM_SOURCE_, w, 0))) || \
    at[w] == COLLECT && (revoked || (LOST & OR_LANES(FROM_LANE_, w))) || \
    at[w] == AWAIT_PARTS && (revoked || (LOST & OR_CHUNKS(FROM_PARTS_, w, 0))) || \
    at[w] == AWAIT_PARAMETERS && (revoked || (LOST & OR_CHUNKS(FROM_FIRST_, w, 0))))

// --- Moves. Each inline is (part of) one indivisible move of worker w. A loop at the end of a d_step
// would leave it, so a skip follows.

// Passes over sends that are not due and phases in which w has nothing to do.
inline settle(w) {
    do
    :: at[w] == SHARE_STATE && next_send[w] < W && !SENDS_STATE(w, next_send[w]) -> next_send[w]++
    :: at[w] == SHARE_STATE && next_send[w] == W -> next_send[w] = 0; at[w] = AWAIT_STATE
    :: at[w] == AWAIT_STATE && !NEEDS(w) -> at[w] = COMPUTE
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
    :: at[w] == SHARE_STATE && LISTENS(n_) ->
        CHECK(one_message_a_slot, (state_mail[n_] & SENDS_STATE(w, n_)) == 0);
        state_mail[n_] = state_mail[n_] | SENDS_STATE(w, n_);
        j_ = 0;
        do // what the message says of sums: to the owner to be, who reads it only once it is whole
        :: j_ < C ->
            if
            :: HAS(SENDS_STATE(w, n_), j_) ->
                CHECK(c3_committed_state_survives, HAS(whole[w], j_) && PARAMETERS(w, j_) == steps_done[w]);
                SUMS(n_, j_) = (HAS(OWNERS(w, j_), n_) -> SUMS(w, j_) : 0)
            :: else
            fi;
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

// (5) Takes the state of these chunks, with sums, or only their parameters.
inline take_state(w, chunks) {
    j_ = 0;
    do
    :: j_ < C && HAS(chunks, j_) ->
        PARAMETERS(w, j_) = steps_done[w];
        whole[w] = whole[w] | (OWNS(w, j_) -> BIT(j_) : 0);
        j_++
    :: j_ < C && !HAS(chunks, j_) -> j_++
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

inline give(w, flag) {
    gave = gave | BIT(w);
    gave_yes = gave_yes | (flag << w);
    at[w] = AGREE;
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
    give(w, 1)
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

inline read_agreement(w) {
    unread = unread & ~BIT(w);
    CHECK(one_answer_about_commit, !committed_flag || committed == steps_done[w] + 1);
    if
    :: committed_flag -> pass_point_of_no_return(w)
    :: else ->
#ifndef KEEP
        forget_sums(w);
#endif
        tell_what_it_holds(w)
    fi
}

// (5) Every survivor derives the map for itself; here it is compared with those of the others.
inline read_opening(w) {
    unread = unread & ~BIT(w);
    at[w] = SHARE_STATE;
    n_ = 0;
    do
    :: n_ < C && sources[n_] == 0 -> at[w] = NEEDS_FILE; n_++
    :: n_ < C && sources[n_] != 0 ->
#ifdef LOCAL_SURVEY // goes by the answers that it got itself; who is silent is taken to have nothing
        i_ = 0;
        m_ = 0;
        do
        :: i_ < W -> m_ = m_ | ((HAS(alive & members, i_) && HAS(whole[i_], n_)) -> BIT(i_) : 0); i_++
        :: else -> break
        od;
        derive_owners(w, n_, m_, alive & members);
#else
        derive_owners(w, n_, sources[n_], members);
#endif
        i_ = 0;
        do
        :: i_ < W ->
            CHECK(one_map, !HAS(alive & members & ~unread, i_) || at[i_] == NEEDS_FILE ||
                at[i_] == DONE || OWNERS(i_, n_) == OWNERS(w, n_));
            i_++
        :: else -> break
        od;
        n_++
    :: else -> break
    od
}

// What a dead worker told the survey stays told until the survey ends.
inline die(w) {
    alive = alive & ~BIT(w);
    losses--;
    unread = unread & ~BIT(w);
    lane_mail[w] = 0;
    lane_mail_mixed[w] = 0;
    part_mail[w] = 0;
    parameter_mail[w] = 0;
    state_mail[w] = 0;
    next_send[w] = 0;
    if
    :: at[w] == OPENING && HAS(gave, w)
    :: else -> forget(w)
    fi;
    at[w] = DEAD
}

inline forget(w) {
    forget_sums(w);
    whole[w] = 0;
    steps_done[w] = 0;
    j_ = 0;
    do
    :: j_ < C -> PARAMETERS(w, j_) = 0; OWNERS(w, j_) = 0; j_++
    :: else -> break
    od;
    skip
}

proctype worker(byte w) {
    byte i, kept, got;
end:
    do
    // Loss, at any point. One who has finished leaves anyway.
    :: d_step { losses && at[w] != DEAD && at[w] != DONE && at[w] != NEEDS_FILE ->
        printf("worker %d dies\n", w);
        die(w) }

    // All that needs no choice, then on to the next send or wait.
    :: d_step { SENDS(w) || REPAIRED(w) || COMPLETE(w) || HAS_PARTS(w) || HAS_PARAMETERS(w) || READS(w) ->
        do
        :: got == 0 || BATCHES && at[w] == got && SENDS(w) ->
            got = at[w];
            printf("worker %d at %d, send %d\n", w, at[w], next_send[w]);
            if
            :: SENDS(w) -> send(w)
            :: REPAIRED(w) -> take_state(w, state_mail[w]); at[w] = COMPUTE
            :: COMPLETE(w) -> take_lanes(w, lane_mail[w]); at[w] = SHARE_PARTS
            :: HAS_PARTS(w) -> vote(w)
            :: HAS_PARAMETERS(w) -> take_parameters(w); at[w] = COMPUTE
            :: READS(w) && at[w] == AGREE -> read_agreement(w)
            :: READS(w) && at[w] == OPENING -> read_opening(w)
            fi;
            settle(w)
        :: else -> break
        od;
        got = 0 }

#ifdef VOTE_INCOMPLETE // all parts have come, so all first owners are complete; it is a second one
    :: d_step { at[w] == COLLECT && part_mail[w] == ALL(C) -> give(w, 1) }
#endif

    // (3) Flag 0. Of the messages that had not been taken, any may have come.
    :: atomic { MAY_GIVE_UP(w) ->
        printf("worker %d at %d gives up\n", w, at[w]);
        i = 0;
        do
        :: i < C && HAS(state_mail[w], i) -> got = got | BIT(i); i++
        :: i < C -> i++
        :: else -> break
        od;
#ifdef KEEP
        i = 0;
        do
        :: i < L && HAS(lane_mail[w], i) -> kept = kept | BIT(i); i++
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
                :: (at[w] == SHARE_STATE || at[w] == AWAIT_STATE) && HAS(NEEDS(w), i) ||
                   (at[w] == SHARE_PARAMETERS || at[w] == AWAIT_PARAMETERS) && HAS(HELD(w), i) ->
                    PARAMETERS(w, i) = TORN;
                    SUMS(w, i) = (HAS(got, i) -> SUMS(w, i) : 0)
                :: else
                fi;
                i++
            :: else -> break
            od;
            take_state(w, got);
#ifdef KEEP
            take_lanes(w, kept);
#else
            forget_sums(w);
#ifndef STALE_MAIL
            lane_mail[w] = 0;
            lane_mail_mixed[w] = 0;
#endif
#endif
            parameter_mail[w] = 0;
            i = 0;
            kept = 0;
            got = 0;
#ifndef NO_REVOKE // others may wait for w itself
            revoked = 1;
#endif
#ifdef SILENT_GIVE_UP // straight to the opening, past the step's agreement
            part_mail[w] = 0;
            next_send[w] = 0;
            tell_what_it_holds(w)
#else
            give(w, 0)
#endif
        } }

#ifdef NOT_UNIFORM
    :: atomic { at[w] == AGREE && HAS(unread, w) && each_its_own ->
        if
        :: d_step {
                unread = unread & ~BIT(w);
                committed = steps_done[w] + 1;
                pass_point_of_no_return(w);
                settle(w) }
        :: d_step { unread = unread & ~BIT(w); forget_sums(w); tell_what_it_holds(w) }
        fi }
#endif
    od
}

// --- The agreement: MPIX_Comm_agree, which is uniform -----------------------------------------------

// Ends when all living members have given. Revoking does not disturb it.
#define LIVING (alive & members)

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
            sources[j_] = 0;
            j_++
        :: else -> break
        od;
        j_ = 0;
        do
        :: j_ < W -> lacks[j_] = 0; j_++
        :: else -> break
        od;
        lanes_missing = ALL(L);
        committed = steps_done[i_] + 1
    :: else -> CHECK(one_answer_about_commit, committed == steps_done[i_])
    fi
}

// (5) The new members' survey: what they told about themselves, the same for all.
inline end_of_opening(new_members) {
    CHECK(members_only_shrink, (new_members & ~members) == 0 && new_members != members);
    members = new_members;
    m_ = ALL(L); // lanes that all surviving owners have
    j_ = 0;
    do
    :: j_ < C ->
        n_ = 0; // who has the chunk's state
        i_ = 0;
        do
        :: i_ < W ->
            if
            :: HAS(members, i_) && HAS(whole[i_], j_) ->
                CHECK(c3_committed_state_survives, PARAMETERS(i_, j_) == committed);
                n_ = n_ | BIT(i_);
                m_ = m_ & SUMS(i_, j_)
            :: else
            fi;
            i_++
        :: else -> break
        od;
        sources[j_] = n_;
#ifdef MAP_ONLY // no survey: members who were owners in the last map are taken to have the state
        sources[j_] = OWNERS(LOWEST(LIVING), j_) & members;
#endif
#ifdef CONFIRMED_OWNERS // no survey: members who were owners in the map of the last commit
        sources[j_] = confirmed[j_] & members;
#endif
        CHECK(c3_no_copy_is_overlooked, sources[j_] || !n_);
#ifdef NEVER_FILE
        CHECK(no_file_needed, sources[j_]);
#endif
        j_++
    :: else -> break
    od;
    lanes_missing = ALL(L) & ~m_;
#ifdef NEVER_KEPT
    CHECK(nothing_kept, lanes_missing == ALL(L));
#endif
    revoked = 0;
    i_ = 0;
    do
    :: i_ < W ->
#ifndef STALE_MAIL
        lane_mail[i_] = 0;
        lane_mail_mixed[i_] = 0;
        part_mail[i_] = 0;
        parameter_mail[i_] = 0;
        state_mail[i_] = 0;
#endif
        lacks[i_] = 0;
        j_ = 0;
        do
        :: j_ < C && HAS(members, i_) ->
#ifndef HOLDERS_NOT_REPAIRED // only new owners are
            lacks[i_] = lacks[i_] | (PARAMETERS(i_, j_) != committed -> BIT(j_) : 0);
#endif
            j_++
        :: else -> break
        od;
        if
        :: !HAS(alive, i_) -> n_ = i_; forget(n_)
        :: else
        fi;
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
#ifdef NOT_UNIFORM // as a plain all-reduce: each survivor has its own answer
                each_its_own = LOST && !(LOST & ~gave) && (gave_yes & gave) == gave;
#endif
            }
        :: else ->
            chosen = LIVING;
            i = 0;
            do // (5) The members: all who live, and whoever gave and died then, or not.
            :: i < W && HAS(gave & ~alive, i) -> chosen = chosen | BIT(i); i++
            :: i < W -> i++
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
                derive_owners(w, c, 0, members);
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
