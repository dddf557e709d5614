#include "world/mpi_world.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <climits>
#include <cstdio>

#include "world/backoff.hpp"
#include "world/mpi_duplicates.hpp"
#include "world/mpi_members.hpp"
#include "world/mpi_start.hpp"

namespace rhizome::world {
namespace {

class MpiWorld final : public World {
  public:
    explicit MpiWorld(const MpiWorldConfig& config)
        : pulse_{config.pulse}, piece_bytes_{config.piece_bytes}, spares_max_{config.spares} {
        ENSURE(piece_bytes_ > 0 && piece_bytes_ <= std::size_t{INT_MAX});
        const MpiStart start = start_mpi(config);
        self_ = WorkerId{start.rank};
        for (std::int32_t rank = 0; rank < start.ranks; ++rank) members_.emplace_back(rank);
        take(start.duplicates);
    }

    [[nodiscard]] WorkerId self() const override { return self_; }
    [[nodiscard]] const std::vector<WorkerId>& members() const override { return members_; }
    [[nodiscard]] const Clock& clock() const override { return clock_; }

    [[nodiscard]] Ticket send(WorkerId to, Tag tag, std::span<const std::byte> bytes) override;
    [[nodiscard]] Ticket receive(WorkerId from, Tag tag, std::span<std::byte> bytes) override;
    [[nodiscard]] std::optional<CommStatus> poll(Ticket ticket) override;
    void rest(Nanoseconds until) override;
    [[nodiscard]] Agreement agree(std::uint32_t flags, Nanoseconds deadline) override;
    void revoke() override;
    [[nodiscard]] Epoch epoch() const override { return epoch_; }
    [[nodiscard]] CommStatus open_epoch(Nanoseconds deadline) override;
    [[nodiscard]] bool runs_short() const override;
    [[nodiscard]] CommStatus renew(Nanoseconds deadline) override;

  private:
    struct Piece {
        MPI_Request request;
        std::optional<int> bytes_expected;  // by a receive
    };
    /// A ticket is the place of its message in the list.
    struct Message {
        enum class State : std::uint8_t { free, under_way, ended };
        State state = State::free;
        CommStatus status = CommStatus::ok;
        std::vector<Piece> pieces;  // those under way; keeps its memory from message to message
    };

    enum class Direction : std::uint8_t { out, in };

    /// Begins one message: `begin_piece(offset, size, request)` for each of its pieces.
    template <class BeginPiece>
    [[nodiscard]] Ticket begin(Direction direction, WorkerId peer, Tag tag, std::size_t bytes,
                               const BeginPiece& begin_piece);
    [[nodiscard]] Ticket take_free_ticket();
    /// Asks MPI about each piece, which moves everything along. True if the message ends by that.
    bool advance(Message& message);
    /// The same for all. True if any ends.
    bool advance_all();
    [[nodiscard]] Agreement agree_on(MPI_Comm comm, std::uint32_t flags, Nanoseconds deadline);
    /// Goes on with the first of these, whose ranks are the members.
    void take(std::vector<MPI_Comm> duplicates);
    [[nodiscard]] MPI_Comm comm() const { return duplicates_[used_]; }
    [[nodiscard]] int rank_of(WorkerId member) const;
    /// Looks whether somebody ended the epoch.
    [[nodiscard]] bool is_revoked();

    Pulse& pulse_;
    std::size_t piece_bytes_;
    std::int32_t spares_max_;
    std::vector<MPI_Comm> duplicates_;  // one for each epoch since they were made
    std::vector<WorkerId> ranks_;       // of each of them
    std::size_t used_ = 0;              // of them, before the epoch's
    Epoch epoch_{0};
    WorkerId self_{0};
    std::vector<WorkerId> members_;
    SteadyClock clock_;
    std::vector<Message> messages_;
    std::vector<std::int32_t> free_;
    std::size_t under_way_ = 0;
    std::vector<std::unique_ptr<int>> late_agreements_;  // MPI may still write there
    bool revocation_known_ = false;  // to this worker, who was told or caused it
};

template <class BeginPiece>
Ticket MpiWorld::begin(Direction direction, WorkerId peer, Tag tag, std::size_t bytes,
                       const BeginPiece& begin_piece) {
    ENSURE(peer != self_);
    ENSURE(tag.value() <= tag_max);
    const Ticket ticket = take_free_ticket();
    Message& message = messages_[ticket.index()];
    // MPI takes a short message on a revoked communicator and says that it was sent.
    message.status = is_revoked() ? CommStatus::revoked : CommStatus::ok;
    std::size_t offset = 0;
    bool goes_on = message.status == CommStatus::ok;
    while (goes_on) {  // an empty message is one empty piece
        const auto size = static_cast<int>(std::min(piece_bytes_, bytes - offset));
        Piece piece{MPI_REQUEST_NULL, {}};
        if (direction == Direction::in) piece.bytes_expected = size;
        message.status = status_of(begin_piece(offset, size, &piece.request));
        offset += static_cast<std::size_t>(size);
        goes_on = message.status == CommStatus::ok && offset < bytes;
        if (message.status == CommStatus::ok) message.pieces.push_back(piece);
    }
    const bool ended = message.pieces.empty();
    message.state = ended ? Message::State::ended : Message::State::under_way;
    if (!ended) ++under_way_;
    return ticket;
}

Ticket MpiWorld::take_free_ticket() {
    if (free_.empty()) {
        messages_.emplace_back();
        return Ticket{static_cast<std::int32_t>(messages_.size()) - 1};
    }
    const Ticket ticket{free_.back()};
    free_.pop_back();
    return ticket;
}

Ticket MpiWorld::send(WorkerId to, Tag tag, std::span<const std::byte> bytes) {
    return begin(Direction::out, to, tag, bytes.size(),
                 [&](std::size_t offset, int size, MPI_Request* request) {
                     return MPI_Isend(bytes.data() + offset, size, MPI_BYTE, rank_of(to),
                                      tag.value(), comm(), request);
                 });
}

Ticket MpiWorld::receive(WorkerId from, Tag tag, std::span<std::byte> bytes) {
    return begin(Direction::in, from, tag, bytes.size(),
                 [&](std::size_t offset, int size, MPI_Request* request) {
                     return MPI_Irecv(bytes.data() + offset, size, MPI_BYTE, rank_of(from),
                                      tag.value(), comm(), request);
                 });
}

bool MpiWorld::advance(Message& message) {
    std::erase_if(message.pieces, [&](Piece& piece) {
        int done = 0;
        MPI_Status status{};
        const int result = MPI_Test(&piece.request, &done, &status);
        if (result != MPI_SUCCESS) {
            message.status = status_of(result);
            return true;
        }
        if (done != 0 && piece.bytes_expected) {
            int bytes = 0;
            MPI_Get_count(&status, MPI_BYTE, &bytes);
            ENSURE(bytes == piece.bytes_expected && "a receive is as long as what was sent");
        }
        return done != 0;
    });
    if (!message.pieces.empty()) return false;
    message.state = Message::State::ended;
    --under_way_;
    return true;
}

std::optional<CommStatus> MpiWorld::poll(Ticket ticket) {
    ENSURE(ticket.index() < messages_.size());
    Message& message = messages_[ticket.index()];
    ENSURE(message.state != Message::State::free);
    if (message.state == Message::State::under_way && !advance(message)) return std::nullopt;
    message.state = Message::State::free;
    free_.push_back(ticket.value());
    if (message.status == CommStatus::revoked) revocation_known_ = true;
    return message.status;
}

bool MpiWorld::advance_all() {
    bool ended = false;
    if (under_way_ == 0) {  // others' revocations and agreements still pass through here
        int found = 0;
        MPI_Iprobe(0, 0, MPI_COMM_SELF, &found, MPI_STATUS_IGNORE);
    }
    for (Message& message : messages_) {
        if (message.state == Message::State::under_way) ended = advance(message) || ended;
    }
    return ended;
}

bool MpiWorld::is_revoked() {
    int revoked = 0;
    MPIX_Comm_is_revoked(comm(), &revoked);
    return revoked != 0;
}

void MpiWorld::rest(Nanoseconds until) {
    Nanoseconds now = clock_.now();
    const Pulse::Waiting waiting{pulse_, std::max(until - now, Nanoseconds{0})};
    for (Backoff backoff; !advance_all() && now < until; now = clock_.now()) {
        if (!revocation_known_ && is_revoked()) {
            revocation_known_ = true;
            return;
        }
        backoff.wait(until - now);
    }
}

Agreement MpiWorld::agree(std::uint32_t flags, Nanoseconds deadline) {
    return agree_on(comm(), flags, deadline);
}

Agreement MpiWorld::agree_on(MPI_Comm comm, std::uint32_t flags, Nanoseconds deadline) {
    Nanoseconds now = clock_.now();
    const Pulse::Waiting waiting{pulse_, std::max(deadline - now, Nanoseconds{0})};
    // Where MPI writes whenever the agreement ends, be it after the deadline.
    auto given = std::make_unique<int>(std::bit_cast<int>(flags));
    MPI_Request request = MPI_REQUEST_NULL;
    int result = MPIX_Comm_iagree(comm, given.get(), &request);
    int done = 0;
    for (Backoff backoff; result == MPI_SUCCESS; now = clock_.now()) {
        result = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (done != 0 || result != MPI_SUCCESS) break;
        if (now >= deadline) {
            late_agreements_.push_back(std::move(given));
            return {CommStatus::timed_out, flags};
        }
        backoff.wait(deadline - now);
    }
    return {status_of(result), std::bit_cast<std::uint32_t>(*given)};
}

void MpiWorld::revoke() {
    if (!is_revoked()) MPIX_Comm_revoke(comm());
    revocation_known_ = true;
}

CommStatus MpiWorld::open_epoch(Nanoseconds deadline) {
    ENSURE(free_.size() == messages_.size() && "poll() has told how everything ended");
    const std::size_t next = used_ + 1;
    if (next == duplicates_.size()) return CommStatus::revoked;
    MPI_Comm comm = duplicates_[next];
    auto members = agree_on_members(
        comm, ranks_, [&](std::uint32_t flags) { return agree_on(comm, flags, deadline); });
    if (!members) return CommStatus::timed_out;
    epoch_ = Epoch{epoch_.value() + 1};
    used_ = next;
    members_ = *std::move(members);
    revocation_known_ = false;
    return CommStatus::ok;
}

bool MpiWorld::runs_short() const {
    const auto left = static_cast<std::int32_t>(duplicates_.size() - used_) - 1;
    const auto losses_max = static_cast<std::int32_t>(members_.size()) - 1;
    return left < std::min(losses_max, spares_max_);
}

CommStatus MpiWorld::renew(Nanoseconds deadline) {
    ENSURE(free_.size() == messages_.size() && "poll() has told how everything ended");
    const auto living = static_cast<std::int32_t>(members_.size());
    std::vector<MPI_Comm> made;
    {
        const Nanoseconds now = clock_.now();
        const Pulse::Waiting waiting{pulse_, std::max(deadline - now, Nanoseconds{0})};
        made = make_duplicates_of_living(comm(), living, 1 + std::min(spares_max_, living - 1));
    }
    const Agreement agreement = agree(made.empty() ? 0 : 1, deadline);
    if (agreement.status != CommStatus::ok) return agreement.status;
    if (agreement.flags == 0) return CommStatus::revoked;
    take(std::move(made));
    return CommStatus::ok;
}

void MpiWorld::take(std::vector<MPI_Comm> duplicates) {
    duplicates_ = std::move(duplicates);
    ranks_ = members_;
    used_ = 0;
}

int MpiWorld::rank_of(WorkerId member) const {
    const auto found = std::lower_bound(ranks_.begin(), ranks_.end(), member);
    ENSURE(found != ranks_.end() && *found == member);
    return static_cast<int>(found - ranks_.begin());
}

}  // namespace

std::unique_ptr<World> make_mpi_world(const MpiWorldConfig& config) {
    return std::make_unique<MpiWorld>(config);
}

void leave_mpi(ExitCode code) {
    std::fflush(nullptr);
    _exit(static_cast<int>(code));
}

}  // namespace rhizome::world
