#include "world/mpi_world.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <climits>
#include <cstdio>

#include "world/backoff.hpp"
#include "world/mpi_members.hpp"
#include "world/mpi_start.hpp"

namespace rhizome::world {
namespace {

class MpiWorld final : public World {
  public:
    explicit MpiWorld(const MpiWorldConfig& config)
        : pulse_{config.pulse},
          piece_bytes_{config.piece_bytes},
          start_{start_mpi(config.spares, config.meeting_max)},
          comm_{start_.duplicates.front()},
          self_{start_.rank} {
        ENSURE(piece_bytes_ > 0 && piece_bytes_ <= std::size_t{INT_MAX});
        for (std::int32_t rank = 0; rank < start_.ranks; ++rank) members_.emplace_back(rank);
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
    /// Looks whether somebody ended the epoch.
    [[nodiscard]] bool is_revoked();

    Pulse& pulse_;
    std::size_t piece_bytes_;
    MpiStart start_;
    Epoch epoch_{0};
    MPI_Comm comm_;  // the epoch's
    WorkerId self_;
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
    ENSURE(peer != self_ && peer.value() < start_.ranks);
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
                     return MPI_Isend(bytes.data() + offset, size, MPI_BYTE, to.value(),
                                      tag.value(), comm_, request);
                 });
}

Ticket MpiWorld::receive(WorkerId from, Tag tag, std::span<std::byte> bytes) {
    return begin(Direction::in, from, tag, bytes.size(),
                 [&](std::size_t offset, int size, MPI_Request* request) {
                     return MPI_Irecv(bytes.data() + offset, size, MPI_BYTE, from.value(),
                                      tag.value(), comm_, request);
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
    MPIX_Comm_is_revoked(comm_, &revoked);
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
    return agree_on(comm_, flags, deadline);
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
    if (!is_revoked()) MPIX_Comm_revoke(comm_);
    revocation_known_ = true;
}

CommStatus MpiWorld::open_epoch(Nanoseconds deadline) {
    ENSURE(free_.size() == messages_.size() && "poll() has told how everything ended");
    const std::size_t next = epoch_.index() + 1;
    if (next == start_.duplicates.size()) return CommStatus::revoked;
    MPI_Comm comm = start_.duplicates[next];
    auto members = agree_on_members(
        comm, [&](std::uint32_t flags) { return agree_on(comm, flags, deadline); });
    if (!members) return CommStatus::timed_out;
    epoch_ = Epoch{epoch_.value() + 1};
    comm_ = comm;
    members_ = *std::move(members);
    revocation_known_ = false;
    return CommStatus::ok;
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
